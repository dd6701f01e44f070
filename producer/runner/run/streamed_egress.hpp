#pragma once

#include "producer/runner/run/egress_strategy.hpp"

namespace offramp {

// Copies on a stream of their own into page-locked slabs, for consumers: EgressStream, and no choice.
class StreamedEgress final : public EgressStrategy {
  public:
    const EgressTraits& traits() const override { return traits_; }
    std::unique_ptr<EgressPath> make_path(EgressParts parts) override;

  private:
    const EgressTraits traits_;
};

}  // namespace offramp
