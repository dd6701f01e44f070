#pragma once

#include <span>

#include "common/wire/tensor_spec.hpp"
#include "producer/runner/sources/batch_source.hpp"

namespace offramp {

// Results are files called KEY.OUTPUT.EXTENSION, and keys and outputs may hold dots: of the outputs `classes` and
// `aux.classes` the former of cat.aux would be the latter of cat. Errors: ConfigError (Usage): two results of `source`
// would have one name. Blocks: reads all keys, where the outputs' names make that possible at all.
void require_distinct_results(const BatchSource& source, std::span<const TensorSpec> outputs);

}  // namespace offramp
