#include "consumer/sinks/parquet/parquet_library.hpp"

#include "common/base/own_module.hpp"

namespace offramp {
namespace {

constexpr const char* kFix =
    "No package contains it; a build from source does if pyarrow is installed. In a checkout, `launch/offramp run "
    "--processor embeddings-parquet` installs pyarrow and builds again. To use your own Python, run `pip install "
    "pyarrow` there and build with -DOFFRAMP_PYTHON=PATH. --processor embeddings-sqlite does not need it";

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
