#include "common/numerics/float16_bits.hpp"
#include "producer/runner/kernels/launch.cuh"
#include "producer/runner/kernels/launches.hpp"

namespace offramp {
namespace {

struct Float32 {
    using Stored = float;
    static __device__ float number(float stored) { return stored; }
};
struct Float16 {
    using Stored = std::uint16_t;
    static __device__ float number(std::uint16_t stored) { return float_of_float16(stored); }
};
struct BFloat16 {
    using Stored = std::uint16_t;
    static __device__ float number(std::uint16_t stored) { return float_of_bfloat16(stored); }
};

// PixelRange::pixel_of() without the fused multiply-add that nvcc would make of it.
__device__ std::uint8_t pixel_of(float share) {
    return static_cast<std::uint8_t>(__fadd_rn(__fmul_rn(fminf(fmaxf(share, 0.0F), 1.0F), 255.0F), 0.5F));
}

// Bound by memory: neighbouring threads touch neighbouring numbers.
template <class Format>
__global__ void make_pixels(std::uint8_t* pixels, float* outliers, const typename Format::Stored* numbers,
                            PixelRange range, std::uint64_t per_row, std::uint64_t elements) {
    for (std::uint64_t i = first_index(); i < elements; i += index_step()) {
        const float number = Format::number(numbers[i]);
        const float share = range.share_of(number);
        if (PixelRange::has_pixel(share))
            pixels[i] = pixel_of(share);
        else
            outliers[i / per_row] = number;  // any of its row
    }
}

template <class Format>
cudaError_t launch_of(cudaStream_t stream, std::uint8_t* pixels, float* outliers,
                      const kernels::PictureNumbers& input) {
    const auto elements = static_cast<std::uint64_t>(input.rows) * static_cast<std::uint64_t>(input.per_row);
    return launch(stream, elements, make_pixels<Format>, pixels, outliers,
                  static_cast<const typename Format::Stored*>(input.numbers), input.range,
                  static_cast<std::uint64_t>(input.per_row), elements);
}

}  // namespace

cudaError_t launch_make_pixels(cudaStream_t stream, std::uint8_t* pixels, float* outliers,
                               const kernels::PictureNumbers& input) {
    if (input.dtype == kFloat32) return launch_of<Float32>(stream, pixels, outliers, input);
    if (input.dtype == kFloat16) return launch_of<Float16>(stream, pixels, outliers, input);
    return launch_of<BFloat16>(stream, pixels, outliers, input);
}

}  // namespace offramp
