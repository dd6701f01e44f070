#pragma once

#include <dlfcn.h>

#include <cstdint>
#include <string>

namespace offramp {

// An Offramp shared object that is opened only when its dependencies are needed, in the folder lib beside the one of
// the running program.
struct OwnModule {
    const char* name;    // in a sentence: "module for Parquet"
    const char* file;    // "libofframp_parquet.so"
    const char* symbol;  // of a C function without arguments, which gives what the module offers
    std::uint32_t abi;   // `abi`, the first field of what it offers
    const char* fix;     // how to get it
};

// Opens it, and never closes it. Errors: ConfigError when there is none, or when it cannot be loaded.
void* symbol_of_module(const OwnModule& module);
// Errors: ConfigError when it is another version's.
void require_abi_of_module(const OwnModule& module, std::uint32_t abi);

// The result of a module's function, a `Function`; lives as long as the process. Thread: any. Blocks: while it is
// loaded. Errors: ConfigError when there is none, when it cannot be loaded, or when it is another version's; with how
// to get it.
template <class Function>
const auto& open_own_module(const OwnModule& module) {
    const auto& offer = *reinterpret_cast<Function*>(symbol_of_module(module))();
    require_abi_of_module(module, offer.abi);
    return offer;
}

// Why this thread's last call of the dynamic loader (dlopen, dlsym) failed, in its own words. Taken once: asked again,
// it knows none. Thread: any.
inline std::string last_loader_error() {
    const char* const text = ::dlerror();
    return text == nullptr ? "no reason given" : text;
}

}  // namespace offramp
