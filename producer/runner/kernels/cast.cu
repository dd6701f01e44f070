#include <cuda_fp16.h>

#include "common/numerics/float16_bits.hpp"
#include "producer/runner/kernels/launch.cuh"
#include "producer/runner/kernels/launches.hpp"

namespace offramp {
namespace {

struct ToBFloat16 {
    __device__ std::uint16_t operator()(float value) const { return bfloat16_bits(__float_as_uint(value)); }
};

// The hardware's rounding; its NaN differs from that of float16_bits.
struct ToFloat16 {
    __device__ std::uint16_t operator()(float value) const {
        return value == value ? __half_as_ushort(__float2half_rn(value)) : std::uint16_t{0x7e00};
    }
};

// Bound by memory: neighbouring threads touch neighbouring bytes, four elements each.
template <class Round, bool kVectors>
__global__ void cast(std::uint16_t* to, const float* from, std::uint64_t elements) {
    const Round round;
    std::uint64_t done = 0;
    if constexpr (kVectors) {
        for (std::uint64_t i = first_index(); i < elements / 4; i += index_step()) {
            const float4 four = reinterpret_cast<const float4*>(from)[i];
            reinterpret_cast<ushort4*>(to)[i] =
                make_ushort4(round(four.x), round(four.y), round(four.z), round(four.w));
        }
        done = elements / 4 * 4;
    }
    for (std::uint64_t i = done + first_index(); i < elements; i += index_step()) to[i] = round(from[i]);
}

template <class Round>
cudaError_t launch_cast_by(cudaStream_t stream, void* to, const void* from, std::uint64_t elements) {
    auto* const bits = static_cast<std::uint16_t*>(to);
    const auto* const values = static_cast<const float*>(from);
    if (aligned(to, 8) && aligned(from, 16))
        return launch(stream, elements / 4, cast<Round, true>, bits, values, elements);
    return launch(stream, elements, cast<Round, false>, bits, values, elements);
}

}  // namespace

cudaError_t launch_cast(cudaStream_t stream, void* to, DType type, const void* from, std::size_t elements) {
    return type == kFloat16 ? launch_cast_by<ToFloat16>(stream, to, from, elements)
                            : launch_cast_by<ToBFloat16>(stream, to, from, elements);
}

cudaError_t find_kernels_for_current_device() {
    cudaFuncAttributes attributes{};
    return cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(&cast<ToBFloat16, true>));
}

}  // namespace offramp
