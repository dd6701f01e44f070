#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "producer/device/device.hpp"

namespace offramp {

// Decodes JPEG files on a GPU with NVIDIA's nvJPEG, which is opened at run time. Uses the GPU's JPEG engines, or its
// cores if it has none. nvJPEG does not report damage: give it only files that WholeJpegCheck accepts. Keeps the memory
// of the largest pictures so far. Thread: one, which uses the device. Errors: open(): ConfigError: no GPU, no nvJPEG;
// CudaError.
class JpegDecoder {
  public:
    enum class Engine { Any, Cores };  // Cores: for tests
    static std::unique_ptr<JpegDecoder> open(const Device& device, Engine engine = Engine::Any);
    virtual ~JpegDecoder() = default;

    // "nvJPEG 13.0 with 7 JPEG engines"
    virtual std::string description() const = 0;
    // Files to decode in one call, for the best rate.
    virtual std::size_t files_at_once() const = 0;

    struct Picture {
        std::span<const std::byte> file;
        std::uint32_t width = 0;
        std::uint8_t* rgb = nullptr;  // on the device, [height, width, 3]
    };
    // Submits all of them, or none. The files, and this object, are in use until an event recorded afterwards is done.
    // Returns why nvJPEG refused: none is decoded then, and nothing is in use. Empty: submitted. Blocks: 0.1 ms per
    // picture; after a refusal until the stream is idle.
    virtual std::string submit(Stream& stream, std::span<const Picture> pictures) = 0;
};

}  // namespace offramp
