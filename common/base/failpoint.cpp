#include "common/base/failpoint.hpp"

#include <dlfcn.h>

namespace offramp {
namespace {

using Hook = void (*)(const char*);

const Hook kHook = reinterpret_cast<Hook>(::dlsym(RTLD_DEFAULT, "offramp_failpoint_reached"));

}  // namespace

void failpoint(const char* name) {
    if (kHook != nullptr) kHook(name);
}

}  // namespace offramp
