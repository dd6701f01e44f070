#include "consumer/sinks/opened_library.hpp"

#include <dlfcn.h>

#include <utility>

#include "common/base/error.hpp"
#include "common/base/own_module.hpp"

namespace offramp {

OpenedLibrary::OpenedLibrary(const std::vector<std::string>& names, std::string wanted_by, std::string fix)
    : wanted_by_(std::move(wanted_by)), fix_(std::move(fix)) {
    std::string reason;  // for the first name: the others are its aliases
    for (const std::string& name : names) {
        handle_ = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
        name_ = name;
        if (handle_ != nullptr) return;
        if (const std::string error = last_loader_error(); reason.empty()) reason = error;
    }
    throw ConfigError(wanted_by_ + " needs a library that cannot be opened: " + reason, fix_);
}

void* OpenedLibrary::symbol(const char* name) const {
    void* const found = ::dlsym(handle_, name);
    if (found == nullptr)
        throw ConfigError(wanted_by_ + " needs the function " + name + ", which " + name_ + " does not have", fix_);
    return found;
}

}  // namespace offramp
