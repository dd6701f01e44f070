#include "consumer/sinks/parquet/parquet_library.hpp"

#include "common/base/own_module.hpp"

namespace offramp {
namespace {

constexpr const char* kFix =
    "No package has it; a build from the sources does, when the Python package pyarrow is there: in a checkout "
    "`launch/offramp run --processor embeddings-parquet` installs it into the set-up's own Python and builds again; "
    "for "
    "a Python of your own, install it there (pip install pyarrow) and build with -DOFFRAMP_PYTHON= that Python. "
    "--processor embeddings-sqlite needs none";

}  // namespace

const ParquetModule& parquet_library() {
    static const ParquetModule& module = open_own_module<ParquetModuleFunction>({.name = "module for Parquet",
                                                                                 .file = "libofframp_parquet.so",
                                                                                 .symbol = kParquetModuleSymbol,
                                                                                 .abi = kParquetModuleAbi,
                                                                                 .fix = kFix});
    return module;
}

}  // namespace offramp
