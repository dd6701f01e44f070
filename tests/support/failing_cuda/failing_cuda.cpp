// A GPU that fails at a chosen call of the CUDA runtime. Preload it into programs on a machine with a GPU.
//
// OFFRAMP_TEST_CUDA_COUNTS=FILE  counts the calls of each function; FILE has a Count for each.
// OFFRAMP_TEST_CUDA_FAULT="FUNCTION NUMBER KIND FILE"  the call with this number, from 1, fails; in the first process
//     only that reaches it, which then creates FILE. KIND `lost`: a kernel that writes to address 8 precedes the call,
//     so the driver itself reports CUDA_ERROR_ILLEGAL_ADDRESS, there or later, and the context is lost. KIND `full`:
//     the call, and each later one of this function in the process, returns cudaErrorMemoryAllocation.

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>

namespace {

struct Count {
    std::array<char, 56> function;
    std::atomic<std::uint64_t> calls;
};
constexpr std::size_t kMostFunctions = 64;

constexpr const char* kStray = R"(.version 7.0
.target sm_75
.address_size 64
.visible .entry stray() {
    .reg .u64 %address;
    .reg .u32 %value;
    mov.u64 %address, 8;
    mov.u32 %value, 1;
    st.global.u32 [%address], %value;
    ret;
}
)";

struct Fault {
    Fault() {
        const char* const given = std::getenv("OFFRAMP_TEST_CUDA_FAULT");
        if (given != nullptr) std::istringstream(given) >> function >> number >> kind >> file;
    }
    std::string function, kind, file;
    std::uint64_t number = 0;
};

const Fault& fault() {
    static const Fault given;
    return given;
}

Count* counts() {
    static Count* const found = [] {
        static std::array<Count, kMostFunctions> own{};
        const char* const path = std::getenv("OFFRAMP_TEST_CUDA_COUNTS");
        const int file = path == nullptr ? -1 : ::open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        if (file < 0 || ::ftruncate(file, sizeof own) != 0) return own.data();
        void* const mapped = ::mmap(nullptr, sizeof own, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        ::close(file);
        return mapped == MAP_FAILED ? own.data() : static_cast<Count*>(mapped);
    }();
    return found;
}

template <typename Function>
Function* in(void* library, const char* name) {
    return reinterpret_cast<Function*>(::dlsym(library, name));
}

// False without a context in this thread, or if the driver refuses. Its handles are pointers, and its errors numbers.
bool lose_context() {
    void* const driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (driver == nullptr) return false;
    void *context = nullptr, *module = nullptr, *stray = nullptr;
    const auto current = in<int(void**)>(driver, "cuCtxGetCurrent");
    const auto load = in<int(void**, const void*)>(driver, "cuModuleLoadData");
    const auto find = in<int(void**, void*, const char*)>(driver, "cuModuleGetFunction");
    using Sizes = unsigned int;
    const auto launch = in<int(void*, Sizes, Sizes, Sizes, Sizes, Sizes, Sizes, unsigned int, void*, void**, void**)>(
        driver, "cuLaunchKernel");
    return current(&context) == 0 && context != nullptr && load(&module, kStray) == 0 &&
           find(&stray, module, "stray") == 0 && launch(stray, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr) == 0;
}

thread_local cudaError_t last_error = cudaSuccess;  // of a call that this library refused

bool refused() {
    last_error = cudaErrorMemoryAllocation;
    return true;
}

// Counts this call. True if it is refused.
bool refuses(std::size_t index, const char* function) {
    Count& count = counts()[index];
    if (count.function[0] == '\0') std::strncpy(count.function.data(), function, count.function.size() - 1);
    const std::uint64_t number = count.calls.fetch_add(1) + 1;
    if (fault().function != function) return false;
    static std::atomic<bool> is_full = false;
    if (is_full) return refused();
    if (number != fault().number) return false;
    const int file = ::open(fault().file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0) return false;  // it happened in an earlier process
    const bool full = fault().kind == "full";
    const char* const what = full ? "refused\n" : lose_context() ? "lost\n" : "no context\n";
    if (::write(file, what, std::strlen(what)) < 0) std::abort();
    ::close(file);
    is_full = full;
    return full && refused();
}

}  // namespace

#define OFFRAMP_HOOK(name, parameters, arguments)                                        \
    extern "C" cudaError_t CUDARTAPI name parameters {                                   \
        static const auto real = in<cudaError_t CUDARTAPI parameters>(RTLD_NEXT, #name); \
        return refuses(__COUNTER__, #name) ? cudaErrorMemoryAllocation : real arguments; \
    }

OFFRAMP_HOOK(cudaMalloc, (void** at, size_t bytes), (at, bytes))
OFFRAMP_HOOK(cudaMemcpyAsync, (void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream),
             (to, from, bytes, kind, stream))
OFFRAMP_HOOK(cudaMemsetAsync, (void* at, int value, size_t bytes, cudaStream_t stream), (at, value, bytes, stream))
OFFRAMP_HOOK(cudaHostAlloc, (void** at, size_t bytes, unsigned int flags), (at, bytes, flags))
OFFRAMP_HOOK(cudaLaunchKernel,
             (const void* kernel, dim3 grid, dim3 block, void** arguments, size_t shared, cudaStream_t stream),
             (kernel, grid, block, arguments, shared, stream))
OFFRAMP_HOOK(cudaLaunchKernelExC, (const cudaLaunchConfig_t* how, const void* kernel, void** arguments),
             (how, kernel, arguments))
OFFRAMP_HOOK(cudaStreamSynchronize, (cudaStream_t stream), (stream))
OFFRAMP_HOOK(cudaDeviceSynchronize, (), ())
OFFRAMP_HOOK(cudaStreamWaitEvent, (cudaStream_t stream, cudaEvent_t event, unsigned int flags), (stream, event, flags))
OFFRAMP_HOOK(cudaEventCreateWithFlags, (cudaEvent_t * event, unsigned int flags), (event, flags))
OFFRAMP_HOOK(cudaEventRecord, (cudaEvent_t event, cudaStream_t stream), (event, stream))
OFFRAMP_HOOK(cudaEventRecordWithFlags, (cudaEvent_t event, cudaStream_t stream, unsigned int flags),
             (event, stream, flags))
OFFRAMP_HOOK(cudaEventQuery, (cudaEvent_t event), (event))
OFFRAMP_HOOK(cudaEventSynchronize, (cudaEvent_t event), (event))
OFFRAMP_HOOK(cudaStreamCreateWithPriority, (cudaStream_t * stream, unsigned int flags, int priority),
             (stream, flags, priority))
OFFRAMP_HOOK(cudaStreamIsCapturing, (cudaStream_t stream, cudaStreamCaptureStatus* status), (stream, status))
OFFRAMP_HOOK(cudaFuncGetAttributes, (cudaFuncAttributes * attributes, const void* kernel), (attributes, kernel))
OFFRAMP_HOOK(cudaGraphInstantiate, (cudaGraphExec_t * made, cudaGraph_t graph, unsigned long long flags),
             (made, graph, flags))
OFFRAMP_HOOK(cudaGraphLaunch, (cudaGraphExec_t graph, cudaStream_t stream), (graph, stream))
OFFRAMP_HOOK(cudaMemGetInfo, (size_t * unused, size_t* all), (unused, all))
OFFRAMP_HOOK(cudaFree, (void* at), (at))

// As the runtime does, it keeps a refused call's error until it is asked for.
extern "C" cudaError_t CUDARTAPI cudaGetLastError() {
    static const auto real = in<cudaError_t CUDARTAPI()>(RTLD_NEXT, "cudaGetLastError");
    const cudaError_t refused = last_error;
    last_error = cudaSuccess;
    const cudaError_t own = real();
    return own == cudaSuccess ? refused : own;
}

extern "C" cudaError_t CUDARTAPI cudaPeekAtLastError() {
    static const auto real = in<cudaError_t CUDARTAPI()>(RTLD_NEXT, "cudaPeekAtLastError");
    const cudaError_t own = real();
    return own == cudaSuccess ? last_error : own;
}
