#include "common/base/failpoint.hpp"

#include <dlfcn.h>

namespace offramp {
namespace {

using Hook = void (*)(const char*);

const Hook hook = reinterpret_cast<Hook>(::dlsym(RTLD_DEFAULT, "offramp_failpoint_reached"));

}  // namespace

void failpoint(const char* name) noexcept {
    if (hook != nullptr) hook(name);
}

}  // namespace offramp
