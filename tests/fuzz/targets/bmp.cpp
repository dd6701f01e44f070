// BMP files, with their alpha.

#include "common/app/images/whole_formats.hpp"
#include "tests/fuzz/fuzz_target.hpp"
#include "tests/fuzz/picture_feed.hpp"
#include "tests/unit/images/more_files.hpp"

namespace offramp {

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
    return {feed_picture<read_bmp_size, decode_bmp, bmp_alpha>,
            {encode_bmp(masks), encode_bmp({.size = size, .top_down = true, .masks = {}, .palette = {}, .rows = rows}),
             palette(12, 1, 0, rows), palette(40, 4, 0, rows), palette(64, 8, 0, rows), palette(40, 8, 1, runs),
             palette(40, 4, 2, runs)}};
}

}  // namespace offramp
