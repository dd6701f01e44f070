// BMP files, with their alpha.

#include "common/images/bmp.hpp"

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
        const ImageSize size = read_bmp_size(copy.bytes(), kMostPixels);
        expect(size.pixels() > 0 && size.pixels() <= kMostPixels, "a picture has pixels, and no more than it may");
        std::vector<std::uint8_t> rgb(size.rgb_bytes());
        decode_bmp(copy.bytes(), size, rgb.data());
        const auto alpha = bmp_alpha(copy.bytes(), size);
        expect(alpha.empty() || alpha.size() == size.pixels(), "alpha has a byte a pixel");
    } catch (const UnreadableItem& refused) {
        expect(!std::string_view(refused.what()).empty(), "a refusal says why");
    }
}

}  // namespace

FuzzTarget make_bmp() {
    using namespace std::string_literals;
    const ImageSize size{9, 6};
    const std::string rows(std::size_t{36} * size.height, '\x5a'), colors(1024, '\x31');
    const std::string runs = "\5\1\0\0\0\5\1\2\3\4\5\0\0\0\0\2\3\1\7\2\0\1"s;
    BmpFile masks{.size = size, .header = 124, .bits = 32, .compression = 3, .masks = {}, .palette = {}, .rows = rows};
    masks.masks = {0xff, 0xff00, 0xff0000, 0xff000000};
    const auto palette = [&](unsigned header, unsigned bits, unsigned compression, const std::string& pixels) {
        const std::size_t bytes = std::size_t{header == 12 ? 3U : 4U} << bits;
        return encode_bmp({.size = size,
                           .header = header,
                           .bits = bits,
                           .compression = compression,
                           .masks = {},
                           .palette = colors.substr(0, bytes),
                           .rows = pixels});
    };
    return {feed,
            {encode_bmp(masks), encode_bmp({.size = size, .top_down = true, .masks = {}, .palette = {}, .rows = rows}),
             palette(12, 1, 0, rows), palette(40, 4, 0, rows), palette(64, 8, 0, rows), palette(40, 8, 1, runs),
             palette(40, 4, 2, runs)}};
}

}  // namespace offramp
