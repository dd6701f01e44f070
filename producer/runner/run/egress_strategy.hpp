#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/app/settings/run_config.hpp"
#include "producer/device/device.hpp"
#include "producer/device/device_timeline.hpp"
#include "producer/egress/egress_run.hpp"
#include "producer/egress/slab_plan.hpp"
#include "producer/runner/inference/inference.hpp"

namespace offramp {

// The properties of an egress that its run needs to know.
struct EgressTraits {
    using Slabs = RunSlabs;

    std::string name = "streams";  // the name in logs, traces and summaries
    Slabs slabs = Slabs::PageLockedPool;
    bool outputs_dropped = false;     // on the device: outputs are neither read, written nor kept
    bool batches_share_slabs = true;  // several small batches in one slab
    bool one_shape = false;           // of all samples of an output
    std::string warning;              // logged in each run; empty: no warning

    bool has_consumers() const { return offramp::has_consumers(slabs); }
    bool has_pool() const { return offramp::has_pool(slabs); }
    // True if another producer can continue after this one's death, because the slabs outlive their producer.
    bool survives_producer() const { return has_pool(); }
};

// Parts of a run that its egress uses. Borrows all of them.
struct EgressParts {
    const RunConfig& config;
    Device& device;
    Stream& compute;
    DeviceTimeline& timeline;
    EgressRun& run;
    ItemListener& items;               // of a run without consumers
    std::function<void()> on_failure;  // called on one of the outputs' threads
};

// How a run's outputs leave the device. The program passes one to its run, which knows only this interface.
// Thread: the model's. Blocks: never.
class EgressStrategy {
  public:
    virtual ~EgressStrategy() = default;
    virtual const EgressTraits& traits() const = 0;
    // Called once. Errors: ConfigError from a processor that runs in the producer.
    virtual std::unique_ptr<RunOutputs> make_outputs(EgressParts parts) = 0;
};

// The egress of ordinary runs: EgressStream copies on its own stream into page-locked slabs for consumers.
class StreamedEgress final : public EgressStrategy {
  public:
    const EgressTraits& traits() const override { return traits_; }
    std::unique_ptr<RunOutputs> make_outputs(EgressParts parts) override;

  private:
    const EgressTraits traits_;
};

}  // namespace offramp
