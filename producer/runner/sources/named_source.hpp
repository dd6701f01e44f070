#pragma once

#include <string>

#include "producer/runner/sources/batch_source.hpp"

namespace offramp {

// Errors: ConfigError lists the known names, and suggests the most similar one.
const SourceEntry& source_named(const std::string& name);

// Checks that an --input exists, before anything is opened. Blocks: on the disk. Errors: ConfigError (NoInput) suggests
// the most similar name beside it.
void require_input(const std::string& input);

}  // namespace offramp
