// The kernels for pixels, against references written here: every device gives exactly these bits.
#include <rapidcheck.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "producer/runner/kernels/kernels.hpp"
#include "tests/contract/device/device_contract.hpp"

namespace offramp {
namespace {

// Nearest, ties to even, found by comparing distances rather than by adding to the bits.
std::uint16_t reference_bfloat16(float value) {
    if (std::isnan(value)) return 0x7fc0;
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t lower = bits & 0xffff0000U;
    if (std::isinf(value) || lower == bits) return static_cast<std::uint16_t>(bits >> 16);
    const std::uint32_t upper = lower + 0x10000U;
    const double above = std::isinf(std::bit_cast<float>(upper)) ? std::copysign(std::ldexp(1.0, 128), value)
                                                                 : static_cast<double>(std::bit_cast<float>(upper));
    const double to_lower = std::abs(static_cast<double>(value) - static_cast<double>(std::bit_cast<float>(lower)));
    const double to_upper = std::abs(above - static_cast<double>(value));
    const bool lower_is_even = (lower >> 16) % 2 == 0;
    const bool take_lower = to_lower < to_upper || (to_lower == to_upper && lower_is_even);
    return static_cast<std::uint16_t>((take_lower ? lower : upper) >> 16);
}

struct Picture {
    std::int64_t rows, height, width;
};

// The index of element [row, channel, y, x] in a [rows, 3, height, width] tensor.
TensorSpec input_spec(DType dtype, const Picture& picture, bool channels_last) {
    const std::array<std::int64_t, 4> shape{picture.rows, 3, picture.height, picture.width};
    TensorSpec spec = TensorSpec::contiguous("input", dtype, shape);
    if (channels_last) spec.strides = {picture.height * picture.width * 3, 1, picture.width * 3, 3};
    return spec;
}

std::vector<std::byte> reference_normalize(const std::vector<std::byte>& pixels, const TensorSpec& spec,
                                           const kernels::PixelInput& input) {
    std::vector<std::byte> result(spec.elements() * spec.dtype.bytes());
    for (std::int64_t row = 0; row < input.rows; ++row) {
        for (std::int64_t channel = 0; channel < 3; ++channel) {
            for (std::int64_t y = 0; y < input.height; ++y) {
                for (std::int64_t x = 0; x < input.width; ++x) {
                    const std::int64_t pixel = ((row * input.height + y) * input.width + x) * 3 + channel;
                    float value = static_cast<float>(pixels[static_cast<std::size_t>(pixel)]);
                    value = value / 255.0F;
                    value = value - input.mean[channel];
                    value = value / input.std[channel];
                    const auto at = static_cast<std::size_t>(row * spec.strides[0] + channel * spec.strides[1] +
                                                             y * spec.strides[2] + x * spec.strides[3]);
                    const std::uint16_t half = reference_bfloat16(value);
                    if (spec.dtype == kFloat32)
                        std::memcpy(&result[at * 4], &value, 4);
                    else
                        std::memcpy(&result[at * 2], &half, 2);
                }
            }
        }
    }
    return result;
}

class NormalizeContract : public DeviceContract {
  protected:
    // `pixel_offset`: the offset in bytes of the pixels in their buffer.
    void expect_reference(const Picture& picture, DType dtype, bool channels_last, std::size_t pixel_offset = 0) {
        SCOPED_TRACE(to_string(dtype) + (channels_last ? " channels-last " : " contiguous ") +
                     std::to_string(picture.rows) + "x" + std::to_string(picture.height) + "x" +
                     std::to_string(picture.width) + "+" + std::to_string(pixel_offset));
        const auto bytes = static_cast<std::size_t>(picture.rows * picture.height * picture.width * 3);
        std::vector<std::byte> pixels = patterned_bytes(bytes, 11);
        for (std::size_t i = 0; i < std::min<std::size_t>(bytes, 256); ++i) pixels[i] = static_cast<std::byte>(i);
        std::vector<std::byte> shifted(pixel_offset);
        shifted.insert(shifted.end(), pixels.begin(), pixels.end());

        const auto on_device = upload(shifted);
        const TensorSpec spec = input_spec(dtype, picture, channels_last);
        const auto result = device().allocate(spec.elements() * dtype.bytes(), "normalized");
        kernels::PixelInput input{.rows = picture.rows, .height = picture.height, .width = picture.width};
        input.pixels = reinterpret_cast<const std::uint8_t*>(on_device->data() + pixel_offset);
        const auto stream = device().make_stream("normalize");
        kernels::normalize(*stream, result->data(), spec, input);
        stream->synchronize();
        EXPECT_TRUE(download(*result) == reference_normalize(pixels, spec, input));
    }
};

TEST_P(NormalizeContract, GivesTorchvisionsBits) {
    for (const DType dtype : {kFloat32, kBFloat16})
        for (const bool channels_last : {false, true})
            for (const Picture picture : {Picture{3, 16, 24}, Picture{2, 7, 5}, Picture{1, 1, 1}, Picture{5, 1, 3},
                                          Picture{2, 33, 64}, Picture{1, 256, 512}})
                expect_reference(picture, dtype, channels_last);
}

TEST_P(NormalizeContract, TakesPixelsThatStartAnywhere) {
    for (const std::size_t offset : {1U, 2U, 3U, 4U})
        for (const bool channels_last : {false, true}) {
            expect_reference({2, 8, 8}, kFloat32, channels_last, offset);
            expect_reference({2, 8, 8}, kBFloat16, channels_last, offset);
        }
}

TEST_P(NormalizeContract, LeavesRowsWithoutInputUnchanged) {
    const Picture picture{4, 4, 4};
    const TensorSpec spec = input_spec(kFloat32, picture, false);
    const std::vector<std::byte> before = patterned_bytes(spec.elements() * 4, 6);
    const auto result = upload(before);
    const auto pixels = upload(patterned_bytes(4 * 4 * 3 * 2, 1));
    kernels::PixelInput input{.rows = 2, .height = 4, .width = 4};
    input.pixels = reinterpret_cast<const std::uint8_t*>(pixels->data());
    const auto stream = device().make_stream("normalize");
    kernels::normalize(*stream, result->data(), spec, input);
    stream->synchronize();
    const std::vector<std::byte> after = download(*result);
    const auto half = static_cast<std::ptrdiff_t>(before.size() / 2);
    EXPECT_FALSE(std::equal(before.begin(), before.begin() + half, after.begin()));
    EXPECT_TRUE(std::equal(before.begin() + half, before.end(), after.begin() + half));

    input.rows = 0;
    kernels::normalize(*stream, result->data(), spec, input);
    stream->synchronize();
    EXPECT_TRUE(download(*result) == after);
}

using NormalizeContractDeathTest = NormalizeContract;

TEST_P(NormalizeContractDeathTest, RefusesTensorsThatAreNotInputs) {
    const kernels::PixelInput input{.rows = 2, .height = 4, .width = 4};
    const auto normalize = [&](const TensorSpec& spec) {
        kernels::normalize(*device().make_stream("normalize"), nullptr, spec, input);
    };
    EXPECT_DEATH(normalize(input_spec(kFloat16, {2, 4, 4}, false)), "float32 or bfloat16");
    EXPECT_DEATH(normalize(input_spec(kFloat32, {1, 4, 4}, false)), "\\[rows, 3, height, width\\] of the pixels");
    TensorSpec padded = input_spec(kFloat32, {2, 4, 4}, false);
    padded.strides[2] = 8;
    EXPECT_DEATH(normalize(padded), "contiguous or channels-last");
}

INSTANTIATE_TEST_SUITE_P(Device, NormalizeContract, testing::ValuesIn(devices_under_test()), device_name);
INSTANTIATE_TEST_SUITE_P(Device, NormalizeContractDeathTest, testing::ValuesIn(devices_under_test()), device_name);

}  // namespace
}  // namespace offramp
