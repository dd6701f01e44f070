#pragma once

#include "consumer/sinks/parquet/parquet_module.hpp"
#include "consumer/sinks/segments/segment_merge.hpp"

namespace offramp {

// Opens libofframp_parquet.so once per process, from the folder lib beside the running program's folder. It loads the
// Arrow libraries of the Python package pyarrow that it was built against. Thread: one. Errors: ConfigError when it is
// missing, cannot be loaded, or has another version; the message says how to get it.
const ParquetModule& parquet_library();

// The form of segments with rows as records (vector_rows.hpp): merge_segments() and join_parts() turn them into one
// Parquet file. Further errors: those of parquet_library() when there are rows to write; ConfigError for vectors of two
// kinds.
const SegmentForm& vectors_form();

}  // namespace offramp
