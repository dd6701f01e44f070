#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "producer/runner/models/model.hpp"

namespace offramp {

// The interface of libofframp_models.so: a single C symbol. Everything else in the module is local to it.

// Raise this number whenever a change to model.hpp or this file is incompatible with modules built before.
inline constexpr std::uint32_t kModelModuleAbi = 7;
inline constexpr const char* kModelModuleSymbol = "offramp_models_v1";

// Lives as long as the process: the module is never closed. `abi` must stay the first field in every version.
struct ModelModule {
    std::uint32_t abi = kModelModuleAbi;
    std::uint32_t has_cuda = 0;                        // 1: LibTorch was built with CUDA
    std::size_t options_bytes = sizeof(ModelOptions);  // catches a module left over from a build with other options
    std::span<const ModelEntry> entries;
    std::span<const ModelFormat> formats;
    const char* libtorch_version = "";  // compiled against this version, "2.11.0"
};

using ModelModuleFunction = const ModelModule*();

// Opens the module of models at run time, so that only a run that needs a LibTorch model loads LibTorch. Owns nothing:
// the module stays loaded until the process ends, because LibTorch cannot be unloaded. Copies are free. Thread: any.
// Blocks: open() while LibTorch is loaded (seconds), make() while weights are read or made. Errors: ConfigError with
// the loader's own words and the fix; from make() also the errors of the model's maker.
class ModelLibrary {
  public:
    // `path` empty: libofframp_models.so in the folder lib beside the one of the running program.
    static ModelLibrary open(const std::string& path = {});
    static std::string default_path();

    std::vector<std::string> names() const;
    bool has(std::string_view name) const;
    // `also_known`: names of models that the caller makes itself, for the list in the error about an unknown name.
    std::unique_ptr<Model> make(const ModelOptions& options, std::span<const std::string> also_known = {}) const;

    const std::string& path() const { return path_; }
    std::string libtorch_version() const;
    bool has_cuda() const;

  private:
    ModelLibrary(std::string path, const ModelModule* module) : path_(std::move(path)), module_(module) {}

    std::string path_;
    const ModelModule* module_;
};

}  // namespace offramp
