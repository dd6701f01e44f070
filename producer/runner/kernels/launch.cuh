#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace offramp {

// Shared by all kernels: grid-stride loops over blocks of one size.
constexpr unsigned kThreads = 256;
constexpr std::uint64_t kMaxBlocks = 8192;

inline __device__ std::uint64_t first_index() {
    return static_cast<std::uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
inline __device__ std::uint64_t index_step() { return static_cast<std::uint64_t>(gridDim.x) * blockDim.x; }

inline unsigned blocks_for(std::uint64_t threads) {
    return static_cast<unsigned>(std::clamp<std::uint64_t>((threads + kThreads - 1) / kThreads, 1, kMaxBlocks));
}

// The launch's own result: the thread's last error, left by <<<>>>, may be another call's.
// A grid of `rows` such rows of threads.
template <class... Parameters, class... Arguments>
cudaError_t launch_rows(cudaStream_t stream, std::uint64_t threads, unsigned rows, void (*kernel)(Parameters...),
                        Arguments... arguments) {
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(blocks_for(threads), rows);
    config.blockDim = dim3(kThreads);
    config.stream = stream;
    return cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...);
}
template <class... Parameters, class... Arguments>
cudaError_t launch(cudaStream_t stream, std::uint64_t threads, void (*kernel)(Parameters...), Arguments... arguments) {
    return launch_rows(stream, threads, 1, kernel, arguments...);
}

inline bool aligned(const void* address, std::size_t alignment) {
    return reinterpret_cast<std::uintptr_t>(address) % alignment == 0;
}

}  // namespace offramp
