#pragma once

#include <dlfcn.h>

#include <string>

namespace offramp {

// Why this thread's last call of the dynamic loader (dlopen, dlsym) failed, in its own words. Taken once: asked again,
// it knows none. Thread: any.
inline std::string last_loader_error() {
    const char* const text = ::dlerror();
    return text == nullptr ? "no reason given" : text;
}

}  // namespace offramp
