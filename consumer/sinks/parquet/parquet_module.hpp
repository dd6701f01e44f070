#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "consumer/sinks/parquet/vector_rows.hpp"

// The interface of libofframp_parquet.so: a single C symbol. Everything else in the module is local to it. It alone
// knows Arrow.
namespace offramp {

// Raised whenever this file or vector_rows.hpp changes in a way that a module built before would not understand.
inline constexpr std::uint32_t kParquetModuleAbi = 3;
inline constexpr const char* kParquetModuleSymbol = "offramp_parquet_v1";

// Lives as long as the process: the module is never closed. `abi` stays the first field in every version. Errors of
// both functions: Error with System, or what `next`, `write` and `found` throw.
struct ParquetModule {
    std::uint32_t abi = kParquetModuleAbi;
    // Rows, as append_row() makes them and all of `kind`, become a Parquet file, whose bytes are handed to `write` in
    // order. `next` gives some rows at a time, valid until the next call, and nothing when there are no more. Equal
    // rows make equal bytes. Memory: a row group.
    void (*write_rows)(const VectorKind& kind, const std::function<std::string_view()>& next,
                       const std::function<void(std::span<const std::byte>)>& write);
    // Every row of an Offramp file, in order.
    void (*read_rows)(const std::string& path, const std::function<void(const VectorRow&)>& found);
    const char* arrow_version = "";  // that the module was compiled against
};

using ParquetModuleFunction = const ParquetModule*();

}  // namespace offramp
