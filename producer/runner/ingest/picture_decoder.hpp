#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/app/images/encoded_picture.hpp"
#include "producer/device/device.hpp"
#include "producer/runner/kernels/jpeg_decoder.hpp"
#include "producer/runner/kernels/kernels.hpp"

namespace offramp {

// Makes rows of pixels from the JPEG files of a batch, on the GPU: decodes them, turns them upright and resizes them.
// The CPU sends compressed bytes instead of pixels. Owns the decoder, and device memory that grows to the largest
// pictures so far: at most kMostBytes, or what one picture needs. Borrows the device. Thread: one, which uses the
// device. Blocks: until all but the last pictures of a large batch are decoded. Errors: ConfigError: no GPU, no nvJPEG;
// CudaError.
class PictureDecoder {
  public:
    explicit PictureDecoder(Device& device);

    // Submits the pictures that have a file, each into its row of `rows`, 8-bit RGB. The files are in use until an
    // event recorded afterwards is done. Returns the rows whose pictures the decoder refused, or had no memory for:
    // these are unchanged.
    std::vector<std::size_t> submit(Stream& stream, std::span<const EncodedPicture> pictures, std::byte* rows,
                                    std::size_t row_bytes);

  private:
    static constexpr std::size_t kMostBytes = std::size_t{512} << 20;

    struct Work {
        std::size_t row = 0;
        kernels::PictureToResize resize;
        std::span<const std::byte> file;
        std::uint32_t stored_width = 0;
        std::size_t pixel_bytes = 0;  // rounded up to the alignment
        std::size_t bytes = 0;        // with the scratch memory
    };
    void submit_in_halves(Stream& stream, std::span<Work> some, std::vector<std::size_t>& refused);
    std::string submit_some(Stream& stream, std::span<Work> some);
    std::byte* memory_for(Stream& stream, std::size_t bytes);

    Device& device_;
    std::unique_ptr<JpegDecoder> decoder_;
    std::unique_ptr<DeviceBuffer> memory_;
    std::unique_ptr<Event> submitted_;
    bool warned_ = false;
};

}  // namespace offramp
