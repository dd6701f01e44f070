#pragma once

#include <functional>
#include <memory>

#include "common/app/settings/run_config.hpp"
#include "producer/device/device.hpp"
#include "producer/device/device_timeline.hpp"
#include "producer/egress/egress_run.hpp"
#include "producer/runner/inference/run_outputs.hpp"
#include "producer/runner/run/egress_traits.hpp"

namespace offramp {

// The parts of a run's outputs. Borrows all of them.
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

}  // namespace offramp
