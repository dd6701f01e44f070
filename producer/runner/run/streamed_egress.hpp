#pragma once

#include "producer/runner/run/egress_strategy.hpp"

namespace offramp {

// The egress of ordinary runs: EgressStream copies on its own stream into page-locked slabs for consumers.
class StreamedEgress final : public EgressStrategy {
  public:
    const EgressTraits& traits() const override { return traits_; }
    std::unique_ptr<RunOutputs> make_outputs(EgressParts parts) override;

  private:
    const EgressTraits traits_;
};

}  // namespace offramp
