#pragma once

#include "common/config/run_config.hpp"

namespace offramp {

// What the defaults depend on.
struct MachineSize {
    bool has_gpu = false;
    unsigned cores = 1;
};

// Replaces every "auto" and 0 that means it by a value that suits the machine, small ones on a CPU. What the user set stays.
RunConfig resolve_defaults(RunConfig config, const MachineSize& machine);

}  // namespace offramp
