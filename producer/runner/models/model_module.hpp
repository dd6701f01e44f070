#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "producer/runner/models/model.hpp"

// The interface of libofframp_models.so: a single C symbol. Everything else in the module is local to it.
namespace offramp {

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

}  // namespace offramp
