#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

// The interface of libofframp_parquet_texts.so, the only module that links Arrow. It exports a single C symbol.
namespace offramp {

// Raise it with any change of this file that breaks modules built before.
inline constexpr std::uint32_t kParquetRowsAbi = 2;
inline constexpr const char* kParquetRowsSymbol = "offramp_parquet_texts_v1";

// An open Parquet file. Thread: one at a time. Blocks: on the disk. Errors: Error (BadInput) that names the damage,
// without the file's path; those of `found`.
class ParquetRows {
  public:
    virtual ~ParquetRows() = default;
    virtual std::vector<std::string> columns() const = 0;
    virtual std::vector<std::uint64_t> rows_of_groups() const = 0;
    // Passes the rows of a row group to `found`, in order, as JSON objects with these columns. Each column must exist
    // exactly once. Dates, times and decimals are texts in Arrow's format. Errors: also if a column holds bytes that
    // are not text.
    virtual void read(std::size_t group, const std::vector<std::string>& columns,
                      const std::function<void(nlohmann::json&&)>& found) = 0;
};

// Valid until the process ends: the module is never closed. `abi` stays the first field in every version.
struct ParquetRowsModule {
    std::uint32_t abi = kParquetRowsAbi;
    // Arrow holds at most `most_bytes` of the file's rows at a time; a row group that needs more is an error.
    std::unique_ptr<ParquetRows> (*open)(const std::string& path, std::uint64_t most_bytes) = nullptr;
};

using ParquetRowsFunction = const ParquetRowsModule*();

// Opens libofframp_parquet_texts.so once per process, from the folder ../lib relative to the running program. The
// module loads Arrow's libraries from the Python package pyarrow that it was built against. Thread: any. Errors:
// ConfigError with the fix, if the module is missing, cannot be loaded, or has another version.
const ParquetRowsModule& parquet_rows_library();

}  // namespace offramp
