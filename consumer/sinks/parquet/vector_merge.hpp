#pragma once

#include <string>

#include "common/base/durability.hpp"
#include "consumer/sinks/segments/segment_merge.hpp"

namespace offramp {

// Makes one Parquet file of the segments of a series whose records are rows (vector_rows.hpp): merge_segments(), whose
// promises it keeps. Errors: those too, and those of parquet_library() when there is something to merge; ConfigError
// for vectors of two kinds.
const SegmentForm& vectors_form();
MergeOutcome merge_vectors(const std::string& folder, std::string_view name, const std::string& output_file,
                           Durability durability);

}  // namespace offramp
