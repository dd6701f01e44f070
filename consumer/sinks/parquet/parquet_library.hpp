#pragma once

#include "consumer/sinks/parquet/parquet_module.hpp"
#include "consumer/sinks/segments/segment_merge.hpp"

namespace offramp {

// Opens libofframp_parquet.so, in the folder lib beside the one of the running program, once a process. It brings
// Arrow's libraries along, those of the Python package pyarrow that it was built against. Thread: one. Errors:
// ConfigError when there is none, when it cannot be loaded, or when it is another version's; with how to get it.
const ParquetModule& parquet_library();

// The form of segments whose records are rows (vector_rows.hpp): merge_segments() and join_parts() make one Parquet
// file of them. Errors besides theirs: those of parquet_library() when there is something to write; ConfigError for
// vectors of two kinds.
const SegmentForm& vectors_form();

}  // namespace offramp
