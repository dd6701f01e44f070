#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "consumer/sinks/parquet/vector_rows.hpp"
#include "consumer/sinks/segments/segment_merge.hpp"

// The interface of libofframp_parquet.so: a single C symbol. Everything else in the module is local to it. Only the
// module uses Arrow.
namespace offramp {

// Raise this number whenever a change to this file or to vector_rows.hpp is incompatible with modules built before.
inline constexpr std::uint32_t kParquetModuleAbi = 3;
inline constexpr const char* kParquetModuleSymbol = "offramp_parquet_v1";

// Lives as long as the process: the module is never closed. `abi` must stay the first field in every version. Errors of
// both functions: Error with System, or exceptions of `next`, `write` and `found`.
struct ParquetModule {
    std::uint32_t abi = kParquetModuleAbi;
    // Converts rows, as append_row() makes them and all of `kind`, to a Parquet file, and passes its bytes to `write`
    // in order. `next` returns some rows at a time, valid until the next call, and an empty view at the end. Equal rows
    // give equal bytes. Memory: a row group.
    void (*write_rows)(const VectorKind& kind, const std::function<std::string_view()>& next,
                       const std::function<void(std::span<const std::byte>)>& write);
    // Passes every row of an Offramp file to `found`, in order.
    void (*read_rows)(const std::string& path, const std::function<void(const VectorRow&)>& found);
};

using ParquetModuleFunction = const ParquetModule*();

// Opens libofframp_parquet.so once per process, from the folder lib beside the running program's folder. It loads the
// Arrow libraries of the Python package pyarrow that it was built against. Thread: one. Errors: ConfigError when it is
// missing, cannot be loaded, or has another version; the message says how to get it.
const ParquetModule& parquet_library();

// The form of segments with rows as records (vector_rows.hpp): merge_segments() and join_parts() turn them into one
// Parquet file. Further errors: those of parquet_library() when there are rows to write; ConfigError for vectors of two
// kinds.
const SegmentForm& vectors_form();

}  // namespace offramp
