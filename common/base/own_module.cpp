#include "common/base/own_module.hpp"

#include <dlfcn.h>

#include <filesystem>
#include <system_error>

#include "common/base/error.hpp"

namespace offramp {
namespace {

std::string path_of_module(const OwnModule& module) {
    std::error_code failure;
    const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", failure);
    if (failure) throw SystemError("reading the link /proc/self/exe", failure.value(), "Is /proc mounted?");
    // Test programs are one folder deeper.
    std::filesystem::path folder = program.parent_path();
    if (folder.filename() == "tests") folder = folder.parent_path();
    return (folder.parent_path() / "lib" / module.file).string();
}

}  // namespace

void* symbol_of_module(const OwnModule& module) {
    const std::string name = module.name;
    const std::string path = path_of_module(module);
    std::error_code failure;
    if (!std::filesystem::exists(path, failure)) throw ConfigError("no " + name + " at '" + path + "'", module.fix);
    void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr)
        throw ConfigError("the " + name + " '" + path + "' cannot be loaded: " + last_loader_error(), module.fix);
    void* symbol = ::dlsym(handle, module.symbol);
    if (symbol == nullptr)
        throw ConfigError("'" + path + "' is not a " + name + " of this version: " + last_loader_error(), module.fix);
    return symbol;
}

void require_abi_of_module(const OwnModule& module, std::uint32_t abi) {
    if (abi == module.abi) return;
    throw ConfigError(std::string("the ") + module.name + " '" + path_of_module(module) + "' has interface version " +
                          std::to_string(abi) + ", this program needs version " + std::to_string(module.abi),
                      "Build program and module together: ./launch/offramp setup");
}

}  // namespace offramp
