// WebP files of one picture and of several, with their alpha. libwebp is not instrumented, but its output buffers have
// exact sizes.

#include "common/app/images/whole_formats.hpp"
#include "tests/fuzz/exact_copy.hpp"
#include "tests/fuzz/fuzz_target.hpp"
#include "tests/fuzz/picture_feed.hpp"
#include "tests/unit/images/more_files.hpp"

namespace offramp {
namespace {

void feed(std::span<const std::byte> input) {
    feed_picture<read_webp_size, decode_webp, webp_alpha>(input);
    ExactCopy copy(input);
    webp_orientation(copy.bytes());
}

}  // namespace

FuzzTarget make_webp() {
    const ImageSize small{12, 8};
    const std::string still = encode_webp(small, gradient(small));
    const PictureRect whole{.left = 0, .top = 0, .size = small}, place{.left = 4, .top = 2, .size = small};
    return {feed,
            {still, webp_with_exif(still, small, exif_of(6)), animated_webp(small, {{whole, still}, {whole, still}}),
             animated_webp({30, 20}, {{place, encode_webp(small, noise(small))}}, true)}};
}

}  // namespace offramp
