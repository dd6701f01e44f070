#pragma once

#include "consumer/sinks/segments/segment_merge.hpp"

namespace offramp {

// The form of segments whose records are rows (vector_rows.hpp): merge_segments() and join_parts() make one Parquet
// file of them. Errors besides theirs: those of parquet_library() when there is something to write; ConfigError for
// vectors of two kinds.
const SegmentForm& vectors_form();

}  // namespace offramp
