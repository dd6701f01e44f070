#pragma once

#include <string>

#include "producer/sources/batch_source.hpp"

namespace offramp {

// A hash of how many items a source has and what they are called, in their order: equal for the same list of names, wherever it lies.
// What the items hold is not looked at: a picture that was replaced under its name is taken for the same.
std::string source_fingerprint(const BatchSource& source);

}  // namespace offramp
