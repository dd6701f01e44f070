#pragma once

#include <memory>

#include "producer/ladder/rung.hpp"
#include "producer/ladder/slab_place.hpp"
#include "producer/runner/run/egress_strategy.hpp"

namespace offramp {

// Builds a run's outputs from a rung's parts. Borrows: the rung.
class RungEgress final : public EgressStrategy {
  public:
    explicit RungEgress(const Rung& rung);
    // The rung of `--strategy`. Errors: ConfigError if a recovery is requested and the rung does not support it.
    static std::unique_ptr<EgressStrategy> chosen_by(const RunConfig& config);

    const EgressTraits& traits() const override { return traits_; }
    // Errors: ConfigError from the processor that the rung `sequential` runs in the producer.
    std::unique_ptr<RunOutputs> make_outputs(EgressParts parts) override;

  private:
    std::unique_ptr<SlabPlace> make_place(const EgressParts& parts, LocalDelivery* local) const;

    const Rung& rung_;
    const EgressTraits traits_;
};

}  // namespace offramp
