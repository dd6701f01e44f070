#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

// The interface of libofframp_parquet_texts.so: a single C symbol. Everything else in the module is local to it. It
// knows Arrow.
namespace offramp {

// Raised whenever this file changes in a way that a module built before would not understand.
inline constexpr std::uint32_t kParquetRowsAbi = 2;
inline constexpr const char* kParquetRowsSymbol = "offramp_parquet_texts_v1";

// An open Parquet file. Thread: one at a time. Blocks: on the disk. Errors: Error with BadInput and what is damaged,
// without the file's path; what `found` throws.
class ParquetRows {
  public:
    virtual ~ParquetRows() = default;
    virtual std::vector<std::string> columns() const = 0;
    virtual std::vector<std::uint64_t> rows_of_groups() const = 0;
    // Rows of a row group, in order, as JSON objects with these columns, each there once. Dates, times and decimals are
    // texts as Arrow writes them. Errors: also when a column holds bytes that are not text.
    virtual void read(std::size_t group, const std::vector<std::string>& columns,
                      const std::function<void(nlohmann::json&&)>& found) = 0;
};

// Lives as long as the process: the module is never closed. `abi` stays the first field in every version.
struct ParquetRowsModule {
    std::uint32_t abi = kParquetRowsAbi;
    // Arrow holds at most `most_bytes` of the file's rows at a time; a row group that needs more is refused.
    std::unique_ptr<ParquetRows> (*open)(const std::string& path, std::uint64_t most_bytes) = nullptr;
};

using ParquetRowsFunction = const ParquetRowsModule*();

// Opens libofframp_parquet_texts.so, in the folder lib beside the one of the running program, once a process. It brings
// Arrow's libraries along, those of the Python package pyarrow that it was built against. Thread: any. Errors:
// ConfigError when there is none, when it cannot be loaded, or when it is another version's; with how to get it.
const ParquetRowsModule& parquet_rows_library();

}  // namespace offramp
