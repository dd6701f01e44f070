#include "common/app/texts/parquet_rows.hpp"
#include "common/base/own_module.hpp"

namespace offramp {
namespace {

constexpr const char* kFix =
    "No package contains it; a build from source does if pyarrow is installed. In a checkout, `launch/offramp run "
    "--source parquet-text` installs pyarrow and builds again. To use your own Python, run `pip install pyarrow` there "
    "and build with -DOFFRAMP_PYTHON=PATH. --source jsonl-text does not need it";

}  // namespace

const ParquetRowsModule& parquet_rows_library() {
    static const ParquetRowsModule& module =
        open_own_module<ParquetRowsFunction>({.name = "module for texts in Parquet",
                                              .file = "libofframp_parquet_texts.so",
                                              .symbol = kParquetRowsSymbol,
                                              .abi = kParquetRowsAbi,
                                              .fix = kFix});
    return module;
}

}  // namespace offramp
