#include "producer/runner/models/model_library.hpp"

#include <torch/version.h>

#if TORCH_VERSION_MAJOR < 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR < 7)
#error "LibTorch 2.7 or later is needed; this one is " TORCH_VERSION
#endif

extern "C" __attribute__((visibility("default"))) const offramp::ModelModule* offramp_models_v1() {
#ifdef OFFRAMP_TORCH_HAS_CUDA
    constexpr std::uint32_t kHasCuda = 1;
#else
    constexpr std::uint32_t kHasCuda = 0;
#endif
    static const offramp::ModelModule module{.has_cuda = kHasCuda,
                                             .entries = offramp::ModelEntry::all(),
                                             .formats = offramp::ModelFormat::all(),
                                             .libtorch_version = TORCH_VERSION};
    return &module;
}
