#pragma once

#include <string>

#include "producer/runner/sources/batch_source.hpp"

namespace offramp {

// Errors: ConfigError tells the names that there are, and the one that was most likely meant.
const SourceEntry& source_named(const std::string& name);

// What is wrong with an --input can be seen of some before anything is opened: it is not there. Blocks: on the disk.
// Errors: ConfigError (NoInput) tells the name beside it that was most likely meant.
void require_input(const std::string& input);

}  // namespace offramp
