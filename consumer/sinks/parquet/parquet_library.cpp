#include "consumer/sinks/parquet/parquet_library.hpp"

#include <dlfcn.h>

#include <filesystem>
#include <system_error>

#include "common/base/error.hpp"
#include "common/base/loader_error.hpp"

namespace offramp {
namespace {

constexpr const char* kFix =
    "No package has it; a build from the sources does, when the Python package pyarrow is there: in a checkout "
    "`launch/offramp run --processor embeddings-parquet` installs it into the set-up's own Python and builds again; "
    "for "
    "a Python of your own, install it there (pip install pyarrow) and build with -DOFFRAMP_PYTHON= that Python. "
    "--processor embeddings-sqlite needs none";

const ParquetModule& open_module() {
    std::error_code failure;
    const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", failure);
    if (failure) throw SystemError("read the link /proc/self/exe", failure.value(), "Is /proc mounted?");
    // Tests' programs lie a folder deeper.
    std::filesystem::path folder = program.parent_path();
    if (folder.filename() == "tests") folder = folder.parent_path();
    const std::string file = (folder.parent_path() / "lib" / "libofframp_parquet.so").string();
    if (!std::filesystem::exists(file, failure)) throw ConfigError("no module for Parquet at '" + file + "'", kFix);
    void* handle = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr)
        throw ConfigError("the module for Parquet '" + file + "' cannot be loaded: " + last_loader_error(), kFix);
    void* symbol = ::dlsym(handle, kParquetModuleSymbol);
    if (symbol == nullptr)
        throw ConfigError("'" + file + "' is not a module for Parquet of this version: " + last_loader_error(), kFix);
    const ParquetModule* module = reinterpret_cast<ParquetModuleFunction*>(symbol)();
    if (module->abi != kParquetModuleAbi)
        throw ConfigError("the module for Parquet '" + file + "' has interface version " + std::to_string(module->abi) +
                              ", this program needs version " + std::to_string(kParquetModuleAbi),
                          "Build program and module together: ./launch/offramp setup");
    return *module;
}

}  // namespace

const ParquetModule& parquet_library() {
    static const ParquetModule& module = open_module();
    return module;
}

}  // namespace offramp
