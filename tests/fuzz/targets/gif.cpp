// GIF files, with their alpha.

#include "common/images/gif.hpp"

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
        const ImageSize size = read_gif_size(copy.bytes(), kMostPixels);
        expect(size.pixels() > 0 && size.pixels() <= kMostPixels, "a picture has pixels, and no more than it may");
        std::vector<std::uint8_t> rgb(size.rgb_bytes());
        decode_gif(copy.bytes(), size, rgb.data());
        const auto alpha = gif_alpha(copy.bytes(), size);
        expect(alpha.empty() || alpha.size() == size.pixels(), "alpha has a byte a pixel");
    } catch (const UnreadableItem& refused) {
        expect(!std::string_view(refused.what()).empty(), "a refusal says why");
    }
}

}  // namespace

FuzzTarget make_gif() {
    GifFile gif = gif_of({40, 30});
    std::vector<std::string> seeds{encode_gif(gif)};
    gif.interlaced = true;
    seeds.push_back(encode_gif(gif));
    gif.canvas = {60, 20};
    gif.picture.left = 7;
    gif.transparent = 3;
    gif.palette.swap(gif.own_palette);
    seeds.push_back(encode_gif(gif));
    GifFile two{.canvas = {9, 9}, .picture = {.left = 0, .top = 0, .size = {9, 9}}, .colors = {}, .color_bits = 1};
    for (unsigned i = 0; i < 81; ++i) two.colors.push_back(i % 3 == 0 ? 1 : 0);
    two.palette = {1, 2, 3, 4, 5, 6};
    seeds.push_back(encode_gif(two));
    return {feed, seeds};
}

}  // namespace offramp
