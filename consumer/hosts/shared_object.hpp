#pragma once

#include <memory>
#include <string>

#include <offramp_processor.h>

namespace offramp {

// A shared object with a processor: `--processor so:PATH`. Owns: the opened object, for the rest of the process: its
// threads may still run its code. Errors: ConfigError with the path: it does not exist, cannot be loaded, exports no
// offramp_processor_v1(), or another version's.
const offramp_processor& open_processor(const std::string& path);

}  // namespace offramp
