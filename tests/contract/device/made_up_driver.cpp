// A libcuda.so.1 that plays a driver which is too old or finds no GPU. It reports the values of MADE_UP_VERSION,
// MADE_UP_INIT and MADE_UP_COUNT in the environment; built with MADE_UP_BEFORE_12 it lacks CUDA 12's functions.
// Nothing else of it works.
#include <cstdlib>
#include <cstring>

namespace {

int number(const char* name, int otherwise) {
    const char* const text = std::getenv(name);
    return text == nullptr ? otherwise : std::atoi(text);
}

int version(int* value) { return *value = number("MADE_UP_VERSION", 12000), 0; }
#ifndef MADE_UP_BEFORE_12
int init(unsigned) { return number("MADE_UP_INIT", 0); }
int count(int* value) { return *value = number("MADE_UP_COUNT", 1), 0; }
int name(int, const char** text) { return *text = "CUDA_ERROR_MADE_UP", 0; }
int string(int, const char** text) { return *text = "a made-up error", 0; }
int nothing() { return 999; }
#endif

}  // namespace

#pragma GCC visibility push(default)
// NOLINTBEGIN(readability-identifier-naming): the names are libcuda's
extern "C" {

int cuDriverGetVersion(int* value) { return version(value); }

#ifndef MADE_UP_BEFORE_12
int cuGetProcAddress_v2(const char* wanted, void** function, int, unsigned long long, int*) {
    const char* const lacking = std::getenv("MADE_UP_LACKS");
    if (lacking != nullptr && std::strcmp(wanted, lacking) == 0) return 500;
    const struct {
        const char* name;
        void* function;
    } known[] = {{"cuInit", reinterpret_cast<void*>(&init)},
                 {"cuDeviceGetCount", reinterpret_cast<void*>(&count)},
                 {"cuDriverGetVersion", reinterpret_cast<void*>(&version)},
                 {"cuGetErrorName", reinterpret_cast<void*>(&name)},
                 {"cuGetErrorString", reinterpret_cast<void*>(&string)}};
    *function = reinterpret_cast<void*>(&nothing);
    for (const auto& one : known)
        if (std::strcmp(wanted, one.name) == 0) *function = one.function;
    return 0;
}
#endif
// NOLINTEND(readability-identifier-naming)

}  // extern "C"
#pragma GCC visibility pop
