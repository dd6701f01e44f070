#pragma once

#include <dlfcn.h>

namespace offramp::test {

// Whether the code under test has been built with a sanitizer. Asked at run time: with AddressSanitizer the tests
// themselves are built without it (tests/CMakeLists.txt).
inline bool has_address_sanitizer() { return ::dlsym(RTLD_DEFAULT, "__asan_init") != nullptr; }
inline bool has_sanitizer() { return has_address_sanitizer() || ::dlsym(RTLD_DEFAULT, "__tsan_init") != nullptr; }

}  // namespace offramp::test
