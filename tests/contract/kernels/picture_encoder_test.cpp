// JPEG files by a GPU, as a decoder reads them.
#include "producer/runner/kernels/picture_encoder.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <cstdlib>

#include "common/app/images/image_decode.hpp"
#include "common/base/error.hpp"
#include "producer/runner/kernels/gpu_runtime.hpp"
#include "tests/contract/device/device_contract.hpp"

namespace offramp {

std::vector<std::string> devices_under_test() { return {"cuda"}; }

namespace {

// Red grows to the right, green downwards; blue is from `seed`. Row by row, channels side by side.
std::vector<std::uint8_t> colours(ImageSize size, unsigned seed) {
    std::vector<std::uint8_t> rgb;
    for (std::uint32_t y = 0; y < size.height; ++y)
        for (std::uint32_t x = 0; x < size.width; ++x)
            for (const std::uint32_t value : {x * 255 / size.width, y * 255 / size.height, seed * 40 % 256})
                rgb.push_back(static_cast<std::uint8_t>(value));
    return rgb;
}

std::vector<std::byte> in_planes(const std::vector<std::uint8_t>& rgb, std::size_t channels) {
    std::vector<std::byte> planes;
    for (std::size_t c = 0; c < channels; ++c)
        for (std::size_t i = c; i < rgb.size(); i += 3) planes.push_back(std::byte{rgb[i]});
    return planes;
}

class PictureEncoderTest : public DeviceContract {
  protected:
    void SetUp() override {
        DeviceContract::SetUp();
        if (IsSkipped()) return;
        try {
            PictureEncoder::open(device(), 90);
        } catch (const ConfigError& problem) {
            GTEST_SKIP() << problem.what();
        }
    }

    std::vector<std::vector<std::byte>> encode(PictureEncoder& encoder,
                                               const std::vector<PictureEncoder::Picture>& pictures) {
        std::vector<std::unique_ptr<DeviceBuffer>> memory;
        const auto files = encoder.encode(pictures, [&](std::size_t bytes) {
            memory.push_back(device().allocate(bytes, "file"));
            return memory.back()->data();
        });
        std::vector<std::vector<std::byte>> read;
        for (const auto& buffer : memory) read.push_back(download(*buffer));
        EXPECT_EQ(files.size(), pictures.size());
        for (std::size_t i = 0; i < files.size(); ++i) {
            EXPECT_EQ(files[i].bytes, read[i].size());
            EXPECT_LE(files[i].bytes, PictureEncoder::most_bytes(pictures[i].width, pictures[i].height));
        }
        return read;
    }

    // The mean difference between the decoded file and the encoded pixels.
    static double difference(const std::vector<std::byte>& file, ImageSize size, const std::vector<std::uint8_t>& rgb) {
        std::vector<std::byte> decoded(size.rgb_bytes());
        ImageDecoder().decode(file, {size}, decoded);
        double sum = 0;
        for (std::size_t i = 0; i < decoded.size(); ++i) sum += std::abs(static_cast<int>(decoded[i]) - int{rgb[i]});
        return sum / static_cast<double>(decoded.size());
    }
};

TEST_P(PictureEncoderTest, FilesHoldThePictures) {
    const auto encoder = PictureEncoder::open(device(), 95);
    const std::vector<ImageSize> sizes{{64, 48}, {1, 1}, {17, 33}, {640, 480}, {8, 8}, {33, 7}, {512, 512}, {100, 30}};
    std::vector<std::unique_ptr<DeviceBuffer>> memory;
    std::vector<std::vector<std::uint8_t>> wanted;
    std::vector<PictureEncoder::Picture> pictures;
    for (const bool channels_last : {false, true})
        for (const ImageSize& size : sizes) {
            wanted.push_back(colours(size, static_cast<unsigned>(wanted.size())));
            memory.push_back(upload(channels_last ? bytes_of(wanted.back()) : in_planes(wanted.back(), 3)));
            pictures.push_back({.pixels = reinterpret_cast<const std::uint8_t*>(memory.back()->data()),
                                .channels = 3,
                                .width = size.width,
                                .height = size.height,
                                .channels_last = channels_last});
        }
    for (int repeat = 0; repeat < 3; ++repeat) {
        const auto files = encode(*encoder, pictures);
        for (std::size_t i = 0; i < files.size(); ++i) {
            EXPECT_EQ(files[i].front(), std::byte{0xff});
            EXPECT_EQ(files[i].back(), std::byte{0xd9});
            EXPECT_LT(difference(files[i], sizes[i % sizes.size()], wanted[i]), 4) << i;
        }
    }
}

TEST_P(PictureEncoderTest, AGrayPictureHasThreeEqualChannels) {
    const auto encoder = PictureEncoder::open(device(), 95);
    const ImageSize size{40, 24};
    std::vector<std::uint8_t> gray = colours(size, 0);
    for (std::size_t i = 0; i < gray.size(); i += 3) gray[i + 1] = gray[i + 2] = gray[i];
    const auto memory = upload(in_planes(gray, 1));
    const auto files = encode(*encoder, {{.pixels = reinterpret_cast<const std::uint8_t*>(memory->data()),
                                          .channels = 1,
                                          .width = size.width,
                                          .height = size.height}});
    EXPECT_LT(difference(files.front(), size, gray), 2);
}

TEST_P(PictureEncoderTest, TheQualityDecidesAboutTheBytes) {
    const auto noise = upload(patterned_bytes(std::size_t{3} * 256 * 256, 5));
    std::vector<std::size_t> bytes;
    for (const int quality : {10, 90, 100}) {
        const auto encoder = PictureEncoder::open(device(), quality);
        bytes.push_back(encode(*encoder, {{.pixels = reinterpret_cast<const std::uint8_t*>(noise->data()),
                                           .channels = 3,
                                           .width = 256,
                                           .height = 256}})
                            .front()
                            .size());
    }
    EXPECT_LT(bytes[0], bytes[1]);
    EXPECT_LT(bytes[1], bytes[2]);
}

INSTANTIATE_TEST_SUITE_P(Device, PictureEncoderTest, testing::ValuesIn(devices_under_test()), device_name);

}  // namespace
}  // namespace offramp
