#include "common/numerics/float16_bits.hpp"
#include "producer/runner/kernels/launch.cuh"
#include "producer/runner/kernels/launches.hpp"

namespace offramp {
namespace {

// All kernels are bound by memory: neighbouring threads touch neighbouring bytes, four elements each.

template <class Output>
struct Vector4;
template <>
struct Vector4<float> {
    using Type = float4;
};
template <>
struct Vector4<std::uint16_t> {
    using Type = ushort4;
};

template <class Output>
__device__ Output to_output(float value);
template <>
__device__ float to_output<float>(float value) {
    return value;
}
template <>
__device__ std::uint16_t to_output<std::uint16_t>(float value) {
    return bfloat16_bits(__float_as_uint(value));
}

// Rounded after each step, as on the CPU: no fused multiply-add, no reciprocal.
__device__ float normalized(std::uint8_t pixel, float mean, float std) {
    return __fdiv_rn(__fsub_rn(__fdiv_rn(static_cast<float>(pixel), 255.0F), mean), std);
}

// Selected rather than indexed: a kernel parameter that is indexed at run time is copied to local memory.
__device__ float of_channel(const float (&values)[3], unsigned channel) {
    return channel == 0 ? values[0] : channel == 1 ? values[1] : values[2];
}

template <class Output>
__device__ Output normalized_at(const std::uint8_t* pixels, std::uint64_t index, unsigned channel,
                                const NormalizePlan& plan) {
    return to_output<Output>(normalized(pixels[index], of_channel(plan.mean, channel), of_channel(plan.std, channel)));
}

// Channels-last: output element i is pixel byte i. Four at a time, the tail one by one.
template <class Output, bool kVectors>
__global__ void normalize_channels_last(Output* to, const std::uint8_t* pixels,
                                        const __grid_constant__ NormalizePlan plan, std::uint64_t elements) {
    std::uint64_t done = 0;
    if constexpr (kVectors) {
        for (std::uint64_t i = first_index(); i < elements / 4; i += index_step()) {
            const uchar4 four = reinterpret_cast<const uchar4*>(pixels)[i];
            const auto channel = static_cast<unsigned>(i % 3);  // 4 i and i leave the same remainder
            const unsigned next = channel == 2 ? 0 : channel + 1;
            const unsigned last = next == 2 ? 0 : next + 1;
            const float mean[3] = {of_channel(plan.mean, channel), of_channel(plan.mean, next),
                                   of_channel(plan.mean, last)};
            const float std[3] = {of_channel(plan.std, channel), of_channel(plan.std, next),
                                  of_channel(plan.std, last)};
            typename Vector4<Output>::Type out;
            out.x = to_output<Output>(normalized(four.x, mean[0], std[0]));
            out.y = to_output<Output>(normalized(four.y, mean[1], std[1]));
            out.z = to_output<Output>(normalized(four.z, mean[2], std[2]));
            out.w = to_output<Output>(normalized(four.w, mean[0], std[0]));
            reinterpret_cast<typename Vector4<Output>::Type*>(to)[i] = out;
        }
        done = elements / 4 * 4;
    }
    for (std::uint64_t i = done + first_index(); i < elements; i += index_step())
        to[i] = normalized_at<Output>(pixels, i, static_cast<unsigned>(i % 3), plan);
}

// Planar: a thread takes four pixels (12 bytes) and writes four elements to each of the three planes.
template <class Output>
__global__ void normalize_planar_by_four(Output* to, const std::uint8_t* pixels,
                                         const __grid_constant__ NormalizePlan plan, std::uint64_t groups) {
    const auto groups_per_row = static_cast<std::uint64_t>(plan.pixels_per_row) / 4;
    for (std::uint64_t i = first_index(); i < groups; i += index_step()) {
        const std::uint64_t row = i / groups_per_row;
        const std::uint64_t group = i - row * groups_per_row;
        const auto* const source = reinterpret_cast<const uchar4*>(pixels) + 3 * i;
        const uchar4 a = source[0];  // r0 g0 b0 r1
        const uchar4 b = source[1];  // g1 b1 r2 g2
        const uchar4 c = source[2];  // b2 r3 g3 b3
        const std::uint8_t planes[3][4] = {{a.x, a.w, b.z, c.y}, {a.y, b.x, b.w, c.z}, {a.z, b.y, c.x, c.w}};
#pragma unroll
        for (unsigned channel = 0; channel < 3; ++channel) {
            typename Vector4<Output>::Type out;
            out.x = to_output<Output>(normalized(planes[channel][0], plan.mean[channel], plan.std[channel]));
            out.y = to_output<Output>(normalized(planes[channel][1], plan.mean[channel], plan.std[channel]));
            out.z = to_output<Output>(normalized(planes[channel][2], plan.mean[channel], plan.std[channel]));
            out.w = to_output<Output>(normalized(planes[channel][3], plan.mean[channel], plan.std[channel]));
            reinterpret_cast<typename Vector4<Output>::Type*>(to)[(row * 3 + channel) * groups_per_row + group] = out;
        }
    }
}

template <class Output>
__global__ void normalize_planar(Output* to, const std::uint8_t* pixels, const __grid_constant__ NormalizePlan plan,
                                 std::uint64_t elements) {
    const auto per_plane = static_cast<std::uint64_t>(plan.pixels_per_row);
    for (std::uint64_t i = first_index(); i < elements; i += index_step()) {
        const std::uint64_t plane = i / per_plane;
        const std::uint64_t pixel = i - plane * per_plane;
        const std::uint64_t row = plane / 3;
        const auto channel = static_cast<unsigned>(plane - row * 3);
        to[i] = normalized_at<Output>(pixels, (row * per_plane + pixel) * 3 + channel, channel, plan);
    }
}

template <class Output>
cudaError_t launch_normalize_to(cudaStream_t stream, Output* to, const std::uint8_t* pixels,
                                const NormalizePlan& plan) {
    const auto elements = static_cast<std::uint64_t>(plan.elements());
    const bool vectors = aligned(pixels, 4) && aligned(to, 4 * sizeof(Output));
    if (plan.order == NormalizePlan::Order::ChannelsLast) {
        return vectors ? launch(stream, elements / 4, normalize_channels_last<Output, true>, to, pixels, plan, elements)
                       : launch(stream, elements, normalize_channels_last<Output, false>, to, pixels, plan, elements);
    }
    if (vectors && plan.pixels_per_row % 4 == 0)
        return launch(stream, elements / 12, normalize_planar_by_four<Output>, to, pixels, plan, elements / 12);
    return launch(stream, elements, normalize_planar<Output>, to, pixels, plan, elements);
}

}  // namespace

cudaError_t launch_normalize(cudaStream_t stream, void* to, const std::uint8_t* pixels, const NormalizePlan& plan) {
    if (plan.output == NormalizePlan::Output::Float32)
        return launch_normalize_to(stream, static_cast<float*>(to), pixels, plan);
    return launch_normalize_to(stream, static_cast<std::uint16_t*>(to), pixels, plan);
}

}  // namespace offramp
