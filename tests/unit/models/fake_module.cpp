#include "common/base/error.hpp"
#include "producer/runner/models/model_library.hpp"

// A module of models without LibTorch, in the variants that ModelLibrary must distinguish.
namespace offramp {
namespace {

std::unique_ptr<Model> make_faulty(const ModelOptions& options) {
    if (options.seed == 1) throw ConfigError("weights of the faulty model", "the fix", ErrorKind::BadInput);
    if (options.seed == 2) throw Error(ErrorKind::DeviceBroken, "context lost");
    throw SystemError("open something", 2);
}

const ModelEntry kEntries[] = {{"faulty", &make_faulty}, {"also-faulty", &make_faulty}};

}  // namespace

#ifndef OFFRAMP_FAKE_NO_SYMBOL
extern "C" __attribute__((visibility("default"))) const ModelModule* offramp_models_v1() {
#ifdef OFFRAMP_FAKE_OTHER_ABI
    constexpr std::uint32_t kAbi = kModelModuleAbi + 41;
#else
    constexpr std::uint32_t kAbi = kModelModuleAbi;
#endif
    static const ModelModule module{.abi = kAbi, .entries = kEntries, .libtorch_version = "none"};
    return &module;
}
#else
[[maybe_unused]] const ModelEntry* const kUnused = kEntries;
#endif

}  // namespace offramp
