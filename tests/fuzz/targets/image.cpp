// Image files of any origin. The decoding libraries are not instrumented, but their output buffers have exact sizes.

#include "common/app/images/image_decode.hpp"

#include "common/app/images/unreadable_item.hpp"
#include "common/base/error.hpp"
#include "tests/fuzz/exact_copy.hpp"
#include "tests/fuzz/fuzz_target.hpp"
#include "tests/unit/images/more_files.hpp"
#include "tests/unit/images/picture_files.hpp"

namespace offramp {
namespace {

constexpr ImageSize kWanted{16, 12};
// Decoding millions of pixels only costs time, so larger pictures end at their header.
constexpr std::size_t kMostBytes = 4096;

void feed(std::span<const std::byte> input) {
    if (input.size() > kMostBytes) return;
    ExactCopy copy(input);
    ImageDecoder decoder;
    for (const PictureFrame& frame : {PictureFrame(kWanted), PictureFrame({11, 11}, 13, Interpolation::Bicubic)}) {
        std::vector<std::byte> rgb(frame.size.rgb_bytes());
        try {
            decoder.decode(copy.bytes(), frame, rgb);
        } catch (const UnreadableItem& refused) {
            expect(!std::string_view(refused.what()).empty(), "a refusal has a reason");
        }
    }
}

}  // namespace

FuzzTarget make_image() {
    const ImageSize small{20, 14};
    const ImageSize line{1, 90};
    return {feed,
            {encode_png(kWanted, gradient(kWanted)), encode_png(small, gradient(small)),
             encode_png(line, gradient(line)), encode_jpeg(kWanted, gradient(kWanted)),
             encode_jpeg(small, gradient(small), JpegColors::Gray, JpegScans::Progressive), png_header({60000, 60000}),
             encode_jpeg(small, gradient(small), JpegColors::Cmyk), encode_webp(kWanted, gradient(kWanted)),
             webp_with_exif(encode_webp(small, gradient(small)), small, exif_of(8)),
             with_exif(encode_jpeg(small, gradient(small)), exif_of(6)), encode_gif(gif_of(small))}};
}

}  // namespace offramp
