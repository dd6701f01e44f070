// Pictures that are cut into tiles, band by band. Both ways of reading give the same pixels.

#include "common/app/images/picture_parts.hpp"

#include "common/app/images/image_decode.hpp"
#include "common/app/images/unreadable_item.hpp"
#include "common/base/error.hpp"
#include "producer/runner/sources/tiles/picture_cuts.hpp"
#include "tests/fuzz/fuzz_target.hpp"
#include "tests/fuzz/scratch_folder.hpp"
#include "tests/unit/images/picture_files.hpp"

namespace offramp {
namespace {

constexpr TileSize kTiles{.tile = 8, .overlap = 2};
constexpr std::uint64_t kMostPixels = 1 << 16;  // decoding more pixels proves nothing more

// Reads bands from the top, then one from the middle again, into a whole picture.
std::vector<std::uint8_t> cut_up(const std::string& path, ImageSize size) {
    const TileAxis down(size.height, kTiles);
    PictureBands bands(path, size, kTiles, 1);
    const std::size_t row_bytes = std::size_t{size.width} * 3;
    std::vector<std::uint8_t> pixels(size.rgb_bytes());
    for (std::uint32_t row = 0; row < down.tiles(); ++row) {
        const auto band = bands.of_row(row);
        expect(band->first == down.first_shown(row) && band->pixels.size() == band->rows * row_bytes &&
                   band->first + band->rows <= size.height,
               "a band shows its row of tiles");
        std::ranges::copy(band->pixels, pixels.begin() + static_cast<std::ptrdiff_t>(band->first * row_bytes));
    }
    const auto again = bands.of_row(down.tiles() / 3);
    expect(std::ranges::equal(again->pixels, std::span(pixels).subspan(again->first * row_bytes, again->pixels.size())),
           "a picture has the same pixels each time");
    return pixels;
}

void check_bands(const std::string& path) {
    std::vector<std::uint8_t> pixels, whole;
    ImageSize size;
    try {
        size = open_picture_rows(path)->size();
        expect(size.pixels() > 0 && size.pixels() <= kMostTiledPixels, "a picture has pixels, and no more than it may");
        if (size.pixels() > kMostPixels) return;
        pixels = cut_up(path, size);
    } catch (const UnreadableItem& refused) {
        expect(!std::string_view(refused.what()).empty(), "a refusal has a reason");
        return;
    }
    try {
        expect(ImageDecoder().decode_file_in_full(path, whole) == size, "a picture has one size");
    } catch (const UnreadableItem&) {
        return;  // the other reader checks whole pictures to the file's end
    }
    expect(pixels == whole, "a picture has the same pixels whole and in bands");
}

}  // namespace

FuzzTarget make_picture_rows() {
    const auto folder = std::make_shared<ScratchFolder>();
    const auto feed = [folder](std::span<const std::byte> input) { check_bands(folder->write("picture", input)); };
    const ImageSize small{20, 14}, line{1, 90}, wide{90, 1};
    const std::string jpeg = encode_jpeg(small, gradient(small));
    const PngLayout gray{.color_type = 0, .bit_depth = 1, .interlaced = false, .palette = {}, .transparency = {}};
    const std::vector<std::uint8_t> bits(14, 1);
    return {
        feed,
        {encode_png(small, gradient(small)), encode_png(line, noise(line)), encode_png(wide, noise(wide)), jpeg,
         encode_jpeg(small, noise(small), JpegColors::Gray), encode_jpeg(small, noise(small), JpegColors::Cmyk),
         encode_jpeg(small, gradient(small), JpegColors::Color, JpegScans::Progressive), with_exif(jpeg, exif_of(6)),
         encode_webp(small, gradient(small)), encode_png({8, 14}, gray, bits), png_header({60000, 60000})}};
}

}  // namespace offramp
