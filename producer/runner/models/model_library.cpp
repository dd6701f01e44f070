#include "producer/runner/models/model_library.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "common/base/error.hpp"
#include "common/base/own_module.hpp"

namespace offramp {
namespace {

constexpr const char* kFix =
    "It needs the LibTorch (2.7 or later) of the Python that it was built with: run ./launch/offramp setup, or build "
    "again with -DOFFRAMP_PYTHON=PATH of that Python, or put its torch/lib into LD_LIBRARY_PATH. The model 'copy' does "
    "not need it";

[[noreturn]] void refuse(const std::string& what_happened) {
    throw ConfigError(what_happened, kFix, ErrorKind::DeviceUnsupported);
}

}  // namespace

std::string ModelLibrary::default_path() {
    std::error_code failure;
    const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", failure);
    if (failure) throw SystemError("reading the link /proc/self/exe", failure.value(), "Is /proc mounted?");
    return (program.parent_path().parent_path() / "lib" / "libofframp_models.so").string();
}

ModelLibrary ModelLibrary::open(const std::string& path) {
    const std::string file = path.empty() ? default_path() : path;
    std::error_code failure;
    if (!std::filesystem::exists(file, failure))
        refuse("no module of models at '" + file + "': it was not built (OFFRAMP_MODELS=OFF) or not installed");
    // If models run on the CPU, decoding and consumers need the same cores: OpenMP's threads wait for one another
    // asleep. Read once, when its library is loaded.
    ::setenv("OMP_WAIT_POLICY", "passive", /*overwrite=*/0);
    // RTLD_LOCAL keeps LibTorch's symbols out of the program's own lookups.
    void* handle = ::dlopen(std::filesystem::absolute(file).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) refuse("the module of models '" + file + "' cannot be loaded: " + last_loader_error());
    void* symbol = ::dlsym(handle, kModelModuleSymbol);
    if (symbol == nullptr) refuse("'" + file + "' is not a module of models of this version: " + last_loader_error());
    const ModelModule* module = reinterpret_cast<ModelModuleFunction*>(symbol)();
    if (module->abi != kModelModuleAbi || module->options_bytes != sizeof(ModelOptions))
        throw ConfigError("the module of models '" + file + "' has interface version " + std::to_string(module->abi) +
                              ", this program needs version " + std::to_string(kModelModuleAbi) +
                              (module->abi == kModelModuleAbi ? " with other options" : ""),
                          "Build program and module together: cmake --build build", ErrorKind::DeviceUnsupported);
    return {file, module};
}

std::vector<std::string> ModelLibrary::names() const {
    std::vector<std::string> names;
    for (const ModelEntry& entry : module_->entries) names.emplace_back(entry.name);
    return names;
}

bool ModelLibrary::has(std::string_view name) const {
    return std::ranges::any_of(module_->entries, [name](const ModelEntry& entry) { return entry.name == name; });
}

std::unique_ptr<Model> ModelLibrary::make(const ModelOptions& options, std::span<const std::string> also_known) const {
    for (const ModelEntry& entry : module_->entries)
        if (entry.name == options.name) return entry.make(options);
    for (const ModelFormat& format : module_->formats)
        if (std::filesystem::path(options.name).extension() == "." + std::string(format.name))
            return format.make(options);
    std::vector<std::string> known = names();
    known.insert(known.end(), also_known.begin(), also_known.end());
    std::ranges::sort(known);
    std::string list;
    for (const std::string& name : known) list += (list.empty() ? "" : ", ") + name;
    throw ConfigError("unknown model '" + options.name + "'", "Known models: " + list);
}

std::string ModelLibrary::libtorch_version() const { return module_->libtorch_version; }

bool ModelLibrary::has_cuda() const { return module_->has_cuda != 0; }

}  // namespace offramp
