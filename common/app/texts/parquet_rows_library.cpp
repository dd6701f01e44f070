#include "common/app/texts/parquet_rows.hpp"
#include "common/base/own_module.hpp"

namespace offramp {
namespace {

constexpr const char* kFix =
    "No package has it; a build from the sources does, when the Python package pyarrow is there: in a checkout "
    "`launch/offramp run --source parquet-text` installs it into the set-up's own Python and builds again; for a "
    "Python of your own, install it there (pip install pyarrow) and build with -DOFFRAMP_PYTHON= that Python. "
    "--source jsonl-text needs none";

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
