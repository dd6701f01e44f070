#pragma once

#include <memory>
#include <string_view>

#include "producer/ladder/slab_place.hpp"
#include "producer/runner/run/egress_strategy.hpp"

namespace offramp {

// How outputs leave the device, as a choice of parts: the article's five rungs, each better than the previous for one
// reason, and the model alone as their reference. A run uses `streams`; the others exist for comparison.
struct Rung {
    enum class Processing { InConsumers, InProducer, None };
    enum class Memory {
        FreshPrivate,  // pageable, new for every batch: like a tensor's cpu()
        FreshSegment,  // a new shared-memory object for every slab, mapped and unmapped on both sides
        Pool,          // shared memory created once, not page-locked
        PageLockedPool,
        None,
    };
    enum class Copies { OnComputeStream, OnOwnStream, None };
    enum class Waiting { ByModelThread, ByOtherThread };

    std::string_view name;
    Processing processing;
    Memory memory;
    Copies copies;
    Waiting waiting;

    // The rung of an ordinary run.
    bool is_default() const { return copies == Copies::OnOwnStream; }

    // The rung with this name, one that the settings accept.
    static const Rung& named(std::string_view name);
};

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
