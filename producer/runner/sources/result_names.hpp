#pragma once

#include <span>

#include "common/wire/tensor_spec.hpp"
#include "producer/runner/sources/batch_source.hpp"

namespace offramp {

// Refuses results with equal names. Results are files named KEY.OUTPUT.EXTENSION, and keys and outputs may contain
// dots: with the outputs `classes` and `aux.classes`, the former of cat.aux equals the latter of cat. Errors:
// ConfigError (Usage): two results of `source` would have one name. Blocks: reads all keys, but only if the outputs'
// names allow such a case.
void require_distinct_results(const BatchSource& source, std::span<const TensorSpec> outputs);

}  // namespace offramp
