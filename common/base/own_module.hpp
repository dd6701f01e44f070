#pragma once

#include <dlfcn.h>

#include <cstdint>
#include <string>

namespace offramp {

// An Offramp shared object that is opened only when its dependencies are needed. It is in the folder ../lib relative to
// the running program.
struct OwnModule {
    const char* name;    // noun for sentences: "module for Parquet"
    const char* file;    // "libofframp_parquet.so"
    const char* symbol;  // a C function without arguments that returns the module's interface
    std::uint32_t abi;   // expected `abi`, the first field of the interface
    const char* fix;     // how to get it
};

// Opens the module and never closes it. Errors: ConfigError if the module is missing or cannot be loaded.
void* symbol_of_module(const OwnModule& module);
// Errors: ConfigError if the module has another version.
void require_abi_of_module(const OwnModule& module, std::uint32_t abi);

// Opens the module and returns the result of its function, a `Function`; valid until the process ends. Thread: any.
// Blocks: while the module is loaded. Errors: ConfigError if the module is missing, cannot be loaded, or has another
// version; with how to install the module.
template <class Function>
const auto& open_own_module(const OwnModule& module) {
    const auto& offer = *reinterpret_cast<Function*>(symbol_of_module(module))();
    require_abi_of_module(module, offer.abi);
    return offer;
}

// The dynamic loader's error text for this thread's last call (dlopen, dlsym). Reading it clears it. Thread: any.
inline std::string last_loader_error() {
    const char* const text = ::dlerror();
    return text == nullptr ? "no reason given" : text;
}

}  // namespace offramp
