#include "producer/runner/ingest/picture_decoder.hpp"

#include <algorithm>
#include <utility>

#include "common/base/error.hpp"
#include "common/base/log.hpp"
#include "common/wire/slab_layout.hpp"
#include "producer/device/cuda_failure.hpp"

namespace offramp {
namespace {

constexpr std::size_t kAlignment = 256;
constexpr std::int64_t kPixelBytes = 3;

// Without its places in memory.
kernels::PictureToResize resize_of(const EncodedPicture& picture) {
    const ImageSize upright = upright_size(picture.stored, picture.orientation);
    const ResizedPart part = picture.frame.part_of(upright);
    const UprightWalk walk = walk_upright(picture.stored, picture.orientation, kPixelBytes);
    return {.first = walk.first,
            .across = walk.across,
            .down = walk.down,
            .width = upright.width,
            .height = upright.height,
            .whole_width = part.width,
            .whole_height = part.height,
            .left = part.left,
            .top = part.top,
            .part_width = picture.frame.size.width,
            .part_height = picture.frame.size.height,
            .interpolation = picture.frame.interpolation};
}

}  // namespace

PictureDecoder::PictureDecoder(Device& device)
    : device_(device), decoder_(JpegDecoder::open(device)), submitted_(device.make_event()) {
    spdlog::info("JPEG files are decoded by {}", decoder_->description());
}

std::vector<std::size_t> PictureDecoder::submit(Stream& stream, std::span<const EncodedPicture> pictures,
                                                std::byte* rows, std::size_t row_bytes) {
    std::vector<Work> work;
    for (std::size_t row = 0; row < pictures.size(); ++row) {
        const EncodedPicture& picture = pictures[row];
        if (picture.file.empty()) continue;
        expect(picture.frame.size.rgb_bytes() == row_bytes, "the row holds exactly the picture");
        Work each{.row = row, .resize = resize_of(picture), .file = picture.file, .stored_width = picture.stored.width};
        each.resize.to = reinterpret_cast<std::uint8_t*>(rows + row * row_bytes);
        each.pixel_bytes = round_up(picture.stored.rgb_bytes(), kAlignment);
        each.bytes = each.pixel_bytes + kernels::resize_scratch_bytes(each.resize);
        work.push_back(each);
    }
    std::vector<std::size_t> refused;
    for (std::span<Work> left(work); !left.empty();) {
        std::size_t count = 1;
        for (std::size_t bytes = left[0].bytes; count < std::min(left.size(), decoder_->files_at_once()); ++count)
            if ((bytes += left[count].bytes) > kMostBytes) break;
        submit_in_halves(stream, left.first(count), refused);
        left = left.subspan(count);
    }
    return refused;
}

// Finds the pictures that are refused: the others of their group are decoded on the GPU, as they are alone.
void PictureDecoder::submit_in_halves(Stream& stream, std::span<Work> some, std::vector<std::size_t>& refused) {
    const std::string problem = submit_some(stream, some);
    if (problem.empty()) return;
    if (some.size() > 1) {
        submit_in_halves(stream, some.first(some.size() / 2), refused);
        submit_in_halves(stream, some.subspan(some.size() / 2), refused);
        return;
    }
    refused.push_back(some.front().row);
    if (!std::exchange(warned_, true))
        spdlog::warn("the GPU did not decode a picture ({}): the CPU decodes it, and others like it", problem);
}

// Empty: submitted. Otherwise why not.
std::string PictureDecoder::submit_some(Stream& stream, std::span<Work> some) {
    if (submitted_->armed()) submitted_->wait();  // the decoder's own memory is in use until then
    std::size_t bytes = 0;
    for (const Work& each : some) bytes += each.bytes;
    std::byte* memory = nullptr;
    try {
        memory = memory_for(stream, bytes);
    } catch (const CudaError& error) {
        if (error.kind() != ErrorKind::DeviceOutOfMemory) throw;
        return error.what();
    }
    std::vector<JpegDecoder::Picture> files;
    std::vector<kernels::PictureToResize> resizes;
    for (Work& each : some) {
        auto* const pixels = reinterpret_cast<std::uint8_t*>(memory);
        each.resize.pixels = pixels;
        each.resize.scratch = memory + each.pixel_bytes;
        files.push_back({.file = each.file, .width = each.stored_width, .rgb = pixels});
        resizes.push_back(each.resize);
        memory += each.bytes;
    }
    if (std::string problem = decoder_->submit(stream, files); !problem.empty()) return problem;
    for (std::span<const kernels::PictureToResize> left(resizes); !left.empty();) {
        const std::size_t count = std::min(left.size(), kernels::kMostPicturesToResize);
        kernels::resize_pictures(stream, left.first(count));
        left = left.subspan(count);
    }
    stream.record(*submitted_);
    return {};
}

std::byte* PictureDecoder::memory_for(Stream& stream, std::size_t bytes) {
    if (memory_ && memory_->bytes() >= bytes) return memory_->data();
    stream.synchronize();
    memory_.reset();
    memory_ = device_.allocate(bytes, "pictures to be decoded");
    return memory_->data();
}

}  // namespace offramp
