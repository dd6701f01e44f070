// WebP files of one picture and of several, with their alpha. libwebp is not instrumented; what it writes to is, by
// size.

#include "common/images/webp.hpp"

#include "common/base/error.hpp"
#include "common/images/unreadable_item.hpp"
#include "tests/fuzz/exact_copy.hpp"
#include "tests/fuzz/fuzz_target.hpp"
#include "tests/unit/images/more_files.hpp"

namespace offramp {
namespace {

constexpr std::uint64_t kMostPixels = 1 << 16;  // decoding more proves nothing more

void feed(std::span<const std::byte> input) {
    ExactCopy copy(input);
    try {
        const ImageSize size = read_webp_size(copy.bytes(), kMostPixels);
        expect(size.pixels() > 0 && size.pixels() <= kMostPixels, "a picture has pixels, and no more than it may");
        webp_orientation(copy.bytes());
        std::vector<std::uint8_t> rgb(size.rgb_bytes());
        decode_webp(copy.bytes(), size, rgb.data());
        const auto alpha = webp_alpha(copy.bytes(), size);
        expect(alpha.empty() || alpha.size() == size.pixels(), "alpha has a byte a pixel");
    } catch (const UnreadableItem& refused) {
        expect(!std::string_view(refused.what()).empty(), "a refusal says why");
    }
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
