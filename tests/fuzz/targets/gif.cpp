// GIF files, with their alpha.

#include "common/app/images/whole_formats.hpp"
#include "tests/fuzz/fuzz_target.hpp"
#include "tests/fuzz/picture_feed.hpp"
#include "tests/unit/images/more_files.hpp"

namespace offramp {

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
    return {feed_picture<read_gif_size, decode_gif, gif_alpha>, seeds};
}

}  // namespace offramp
