#include "consumer/processors/pictures/palette_png.hpp"

#include <string_view>

namespace offramp {
PalettePng::PalettePng(const CatalogueValues& settings) : PalettePng(PngEncoder(settings)) {
    if (settings.text("mask-palette") == "none") palette_.reset();
}

PngPalette voc_palette() {
    // Bit 0, 3, 6 of the class go to the highest bits of red, bit 1, 4, 7 to green's, 2 and 5 to blue's.
    PngPalette palette{};
    for (unsigned id = 0; id < 256; ++id)
        for (unsigned bit = 0; bit < 8; ++bit) {
            auto& channel = palette[id][bit % 3];
            channel = static_cast<std::uint8_t>(channel | (((id >> bit) & 1U) << (7U - bit / 3)));
        }
    return palette;
}

std::span<const std::byte> PalettePng::encode(std::span<const std::uint8_t> ids, std::uint32_t width,
                                              std::uint32_t height, const Progress& progress) {
    return encoder_.encode({.pixels = ids,
                            .width = width,
                            .height = height,
                            .kind = palette_ ? PngPixels::Palette : PngPixels::Ids,
                            .palette = palette_ ? &*palette_ : nullptr},
                           progress);
}

}  // namespace offramp
