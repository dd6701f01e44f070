#include "producer/runner/kernels/launch.cuh"
#include "producer/runner/kernels/launches.hpp"

namespace offramp {
namespace {

using Picture = ResizePlan::Picture;

constexpr std::uint32_t kBeforeWeights = ResizePlan::kBeforeWeights;

__device__ void write_line(std::int32_t* line, const PictureFilter& filter, std::uint64_t pixel) {
    const std::uint32_t first = filter.first_of(pixel);
    line[0] = static_cast<std::int32_t>(first);
    line[1] = static_cast<std::int32_t>(filter.end_of(pixel) - first);
    filter.weights(pixel, line + kBeforeWeights);
}

__global__ void write_filters(const __grid_constant__ ResizePlan plan) {
    const Picture& picture = plan.pictures[blockIdx.y];
    const kernels::PictureToResize& of = picture.of;
    const PictureFilter across(of.interpolation, of.width, of.whole_width);
    const PictureFilter down(of.interpolation, of.height, of.whole_height);
    for (std::uint64_t i = first_index(); i < of.part_width + of.part_height; i += index_step()) {
        if (i < of.part_width)
            write_line(picture.columns + i * picture.column_stride, across, of.left + i);
        else
            write_line(picture.rows + (i - of.part_width) * picture.row_stride, down, of.top + i - of.part_width);
    }
}

struct Sums {
    std::int32_t red = kHalfOfSum, green = kHalfOfSum, blue = kHalfOfSum;

    __device__ void add(const std::uint8_t* pixel, std::int32_t weight) {
        red += pixel[0] * weight;
        green += pixel[1] * weight;
        blue += pixel[2] * weight;
    }
    __device__ void store(std::uint8_t* to) const {
        to[0] = pixel_of_sum(red);
        to[1] = pixel_of_sum(green);
        to[2] = pixel_of_sum(blue);
    }
};

__global__ void resize_across(const __grid_constant__ ResizePlan plan) {
    const Picture& picture = plan.pictures[blockIdx.y];
    const kernels::PictureToResize& of = picture.of;
    const std::uint64_t pixels = std::uint64_t{picture.row_count} * of.part_width;
    for (std::uint64_t i = first_index(); i < pixels; i += index_step()) {
        const std::uint64_t row = i / of.part_width;
        const std::uint64_t column = i - row * of.part_width;
        const std::int32_t* const line = picture.columns + column * picture.column_stride;
        const std::uint8_t* pixel =
            of.pixels + of.first + static_cast<std::int64_t>(picture.first_row + row) * of.down + line[0] * of.across;
        Sums sums;
        for (std::int32_t tap = 0; tap < line[1]; ++tap, pixel += of.across)
            sums.add(pixel, line[kBeforeWeights + tap]);
        sums.store(picture.between + i * 3);
    }
}

__global__ void resize_down(const __grid_constant__ ResizePlan plan) {
    const Picture& picture = plan.pictures[blockIdx.y];
    const kernels::PictureToResize& of = picture.of;
    const std::uint64_t pixels = std::uint64_t{of.part_height} * of.part_width;
    const std::uint64_t row_bytes = std::uint64_t{of.part_width} * 3;
    for (std::uint64_t i = first_index(); i < pixels; i += index_step()) {
        const std::uint64_t row = i / of.part_width;
        const std::uint64_t column = i - row * of.part_width;
        const std::int32_t* const line = picture.rows + row * picture.row_stride;
        const std::uint8_t* pixel =
            picture.between + (static_cast<std::uint32_t>(line[0]) - picture.first_row) * row_bytes + column * 3;
        Sums sums;
        for (std::int32_t tap = 0; tap < line[1]; ++tap, pixel += row_bytes)
            sums.add(pixel, line[kBeforeWeights + tap]);
        sums.store(of.to + i * 3);
    }
}

}  // namespace

cudaError_t launch_resize(cudaStream_t stream, const ResizePlan& plan) {
    std::uint64_t lines = 0, between = 0, parts = 0;
    for (std::uint32_t i = 0; i < plan.count; ++i) {
        const kernels::PictureToResize& of = plan.pictures[i].of;
        lines = std::max<std::uint64_t>(lines, std::uint64_t{of.part_width} + of.part_height);
        between = std::max(between, std::uint64_t{plan.pictures[i].row_count} * of.part_width);
        parts = std::max(parts, std::uint64_t{of.part_height} * of.part_width);
    }
    if (const auto result = launch_rows(stream, lines, plan.count, write_filters, plan); result != cudaSuccess)
        return result;
    if (const auto result = launch_rows(stream, between, plan.count, resize_across, plan); result != cudaSuccess)
        return result;
    return launch_rows(stream, parts, plan.count, resize_down, plan);
}

}  // namespace offramp
