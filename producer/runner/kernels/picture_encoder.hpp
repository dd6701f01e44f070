#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "producer/device/device.hpp"

namespace offramp {

// Encodes pictures as JPEG files, which stay on the device. The GPU's encoder is NVIDIA's nvJPEG, opened at run time.
// Thread: one, which uses the device. Blocks: until the files are complete. Errors: Error: a picture cannot be encoded;
// CudaError.
class PictureEncoder {
  public:
    // Colours have half of the picture's resolution, as in files of consumers. `quality`: 1 to 100. Errors:
    // ConfigError: no GPU, no nvJPEG.
    static std::unique_ptr<PictureEncoder> open(Device& device, int quality);
    virtual ~PictureEncoder() = default;

    // 8-bit pixels on the device. Of one channel, the file has three equal ones.
    struct Picture {
        const std::uint8_t* pixels = nullptr;
        std::uint32_t channels = 3, width = 0, height = 0;
        bool channels_last = false;  // else a plane for each channel
    };
    struct File {
        std::byte* data = nullptr;
        std::size_t bytes = 0;
    };
    // Returns a file for each picture, in memory that `room` returns for so many bytes. The pixels are complete.
    virtual std::vector<File> encode(std::span<const Picture> pictures,
                                     const std::function<std::byte*(std::size_t bytes)>& room) = 0;

    // More than a file of such a picture has.
    static constexpr std::size_t most_bytes(std::uint32_t width, std::uint32_t height) {
        const auto whole_blocks = [](std::size_t side) { return (side + 15) / 16 * 16; };
        return 2 * 3 * whole_blocks(width) * whole_blocks(height) + 4096;
    }
};

}  // namespace offramp
