#include "common/app/images/whole_formats.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string>

#include "common/app/images/image_decode.hpp"
#include "common/app/images/image_format.hpp"
#include "common/app/images/unreadable_item.hpp"
#include "common/base/error.hpp"

namespace offramp {
namespace {

constexpr std::size_t kFileHeader = 14;
constexpr std::size_t kCoreHeader = 12;  // OS/2's first version; all other headers have 40 bytes or more
constexpr std::size_t kInfoHeader = 40;
constexpr std::size_t kHeaderWithAlpha = 56;
constexpr std::size_t kBmpColors = 256;

enum class Packing : std::uint32_t { None = 0, Runs8 = 1, Runs4 = 2, Masks = 3 };

// The position of a colour in a pixel's bits.
struct ColorMask {
    unsigned shift = 0;
    std::uint32_t most = 0;

    std::uint8_t of(std::uint32_t pixel) const {
        return static_cast<std::uint8_t>(std::uint64_t{(pixel >> shift) & most} * 255 / most);
    }
};

struct BmpLayout {
    ImageSize size;
    bool top_down = false;
    unsigned bits = 0;
    Packing packing = Packing::None;
    std::array<ColorMask, 3> masks{};  // red, green, blue; for pixels of more than 8 bits
    std::uint32_t alpha_mask = 0;      // 0: no alpha
    std::array<std::array<std::uint8_t, 3>, kBmpColors> palette{};
    std::span<const std::byte> pixels;

    std::size_t row_bytes() const { return (std::size_t{size.width} * bits + 31) / 32 * 4; }
    std::uint8_t* row(std::uint32_t y, std::uint8_t* rgb) const {
        return rgb + std::size_t{top_down ? y : size.height - 1 - y} * size.width * 3;
    }
};

[[noreturn]] void refuse_layout(const std::string& what) {
    throw UnreadableItem("BMP with " + what + ", which is not supported");
}
[[noreturn]] void refuse_damaged(const std::string& why) { throw UnreadableItem("damaged BMP: " + why); }

[[noreturn]] void refuse_truncated(std::size_t file_bytes) {
    throw UnreadableItem("truncated BMP: its " + std::to_string(file_bytes) + " bytes end before the image does");
}

std::uint32_t number_at(std::span<const std::byte> file, std::size_t at, std::size_t bytes) {
    if (at > file.size() || bytes > file.size() - at) refuse_truncated(file.size());
    return little_endian_at(file, at, bytes);
}

ColorMask color_mask(std::uint32_t mask) {
    const ColorMask found{.shift = static_cast<unsigned>(std::countr_zero(mask | 0x80000000U)),
                          .most = mask >> std::countr_zero(mask | 0x80000000U)};
    if (found.most == 0 || !std::has_single_bit(std::uint64_t{found.most} + 1))
        refuse_layout("the colour mask " + std::to_string(mask));
    return found;
}

// Five bits per colour of 16-bit pixels, else eight, unless the file has masks: in its header, or after one of 40
// bytes.
void read_masks(std::span<const std::byte> file, std::size_t header, BmpLayout& layout) {
    std::array<std::uint32_t, 3> masks{0xff0000, 0xff00, 0xff};
    if (layout.bits == 16) masks = {0x7c00, 0x3e0, 0x1f};
    if (layout.packing == Packing::Masks) {
        std::array<std::uint32_t, 3> own{};
        for (std::size_t i = 0; i < 3; ++i) own[i] = number_at(file, kFileHeader + kInfoHeader + 4 * i, 4);
        const bool has_own = layout.bits != 32 || own != std::array<std::uint32_t, 3>{};
        if (has_own) masks = own;
        if (layout.bits == 32 && header >= kHeaderWithAlpha)
            layout.alpha_mask = has_own ? number_at(file, kFileHeader + kInfoHeader + 12, 4) : 0xff000000;
    }
    std::ranges::transform(masks, layout.masks.begin(), color_mask);
}

// The palette follows the header, blue first.
void read_palette(std::span<const std::byte> file, std::size_t at, std::size_t colors, std::size_t color_bytes,
                  BmpLayout& layout) {
    for (std::size_t i = 0; i < std::min(colors, kBmpColors); ++i)
        for (std::size_t color = 0; color < 3; ++color)
            layout.palette[i][color] = static_cast<std::uint8_t>(number_at(file, at + i * color_bytes + 2 - color, 1));
}

void check_packing(const BmpLayout& layout, std::uint32_t number) {
    using enum Packing;
    constexpr std::array<unsigned, 6> kBits{1, 4, 8, 16, 24, 32};
    if (std::ranges::find(kBits, layout.bits) == kBits.end())
        refuse_layout(std::to_string(layout.bits) + " bits per pixel");
    if (number > static_cast<std::uint32_t>(Masks)) refuse_layout("compression " + std::to_string(number));
    const bool fits = layout.packing == None || (layout.packing == Runs8 && layout.bits == 8) ||
                      (layout.packing == Runs4 && layout.bits == 4) || (layout.packing == Masks && layout.bits > 8);
    if (!fits)
        refuse_layout("compression " + std::to_string(number) + " with " + std::to_string(layout.bits) +
                      " bits per pixel");
}

BmpLayout layout_of(std::span<const std::byte> file) {
    constexpr std::array<std::uint32_t, 6> kHeaders{kInfoHeader, 52, 56, 64, 108, 124};
    BmpLayout layout;
    std::size_t data = number_at(file, 10, 4);
    const std::size_t header = number_at(file, kFileHeader, 4);
    std::uint32_t packing = 0;
    std::size_t colors = 0;
    if (header == kCoreHeader) {
        layout.size = {number_at(file, 18, 2), number_at(file, 20, 2)};
        layout.bits = number_at(file, 24, 2);
    } else if (std::ranges::find(kHeaders, header) != kHeaders.end()) {
        layout.size = {number_at(file, 18, 4), number_at(file, 22, 4)};
        layout.top_down = number_at(file, 25, 1) == 0xff;  // a height below zero
        if (layout.top_down) layout.size.height = 0U - layout.size.height;
        layout.bits = number_at(file, 28, 2);
        packing = number_at(file, 30, 4);
        colors = number_at(file, 46, 4);
    } else {
        refuse_layout("a header of " + std::to_string(header) + " bytes");
    }
    layout.packing = static_cast<Packing>(packing);
    check_packing(layout, packing);
    if (layout.size.pixels() == 0) refuse_damaged("it has no pixels");
    std::size_t at = kFileHeader + header;
    if (layout.bits > 8) {
        read_masks(file, header, layout);
        if (layout.packing == Packing::Masks && header == kInfoHeader) at += 12;
    } else {
        const std::size_t color_bytes = header == kCoreHeader ? 3 : 4;
        if (colors == 0) colors = std::size_t{1} << layout.bits;
        if (colors > 65536) refuse_damaged("a palette of " + std::to_string(colors) + " colours");
        read_palette(file, at, colors, color_bytes, layout);
        // Some writers give the palette's offset as the pixels' offset.
        if (data == at) data = 0;
        at += colors * color_bytes;
    }
    if (data == 0) data = at;
    layout.pixels = file.subspan(std::min(data, file.size()));
    return layout;
}

// Decodes a row. A pixel has whole bytes, or a byte has several pixels, the first in its highest bits.
void decode_row(const BmpLayout& layout, std::span<const std::byte> from, std::uint8_t* rgb) {
    const unsigned bytes = layout.bits / 8;
    for (std::uint32_t x = 0; x < layout.size.width; ++x, rgb += 3) {
        if (layout.bits > 8) {
            const std::uint32_t pixel = number_at(from, std::size_t{x} * bytes, bytes);
            for (std::size_t color = 0; color < 3; ++color) rgb[color] = layout.masks[color].of(pixel);
        } else {
            const unsigned in_byte = 8 / layout.bits;
            const unsigned byte = std::to_integer<unsigned>(from[x / in_byte]);
            const unsigned number = byte >> (8 - layout.bits * (x % in_byte + 1)) & ((1U << layout.bits) - 1);
            std::memcpy(rgb, layout.palette[number].data(), 3);
        }
    }
}

void decode_plain(const BmpLayout& layout, std::size_t file_bytes, std::uint8_t* rgb) {
    const std::size_t row_bytes = layout.row_bytes(), used = (std::size_t{layout.size.width} * layout.bits + 7) / 8;
    if (layout.pixels.size() < row_bytes * (layout.size.height - 1) + used) refuse_truncated(file_bytes);
    for (std::uint32_t y = 0; y < layout.size.height; ++y)
        decode_row(layout, layout.pixels.subspan(row_bytes * y, used), layout.row(y, rgb));
}

// Writes colour indexes to their pixels. Drops pixels beyond a row or the picture.
class BmpRuns {
  public:
    BmpRuns(const BmpLayout& layout, std::uint8_t* rgb) : layout_(layout), rgb_(rgb) {}

    bool are_all() const {
        return y_ >= layout_.size.height || (y_ + 1 == layout_.size.height && x_ >= layout_.size.width);
    }
    void put(unsigned color) {
        if (y_ < layout_.size.height && x_ < layout_.size.width)
            std::memcpy(layout_.row(static_cast<std::uint32_t>(y_), rgb_) + x_ * 3, layout_.palette[color].data(), 3);
        ++x_;
    }
    void end_row() { x_ = 0, ++y_; }
    void move(unsigned across, unsigned down) { x_ += across, y_ += down; }

  private:
    const BmpLayout& layout_;
    std::uint8_t* rgb_;
    std::uint64_t x_ = 0, y_ = 0;
};

void decode_runs(const BmpLayout& layout, std::size_t file_bytes, std::uint8_t* rgb) {
    constexpr unsigned kEndOfRow = 0, kEnd = 1, kMove = 2;
    const bool nibbles = layout.packing == Packing::Runs4;
    auto left = layout.pixels;
    const auto take = [&] {
        if (left.empty()) refuse_truncated(file_bytes);
        const auto byte = std::to_integer<unsigned>(left.front());
        left = left.subspan(1);
        return byte;
    };
    BmpRuns runs(layout, rgb);
    while (!runs.are_all()) {
        const unsigned count = take(), byte = take();
        if (count > 0) {
            for (unsigned i = 0; i < count; ++i) runs.put(!nibbles ? byte : i % 2 == 0 ? byte >> 4U : byte & 15U);
        } else if (byte == kEndOfRow) {
            runs.end_row();
        } else if (byte == kEnd) {
            return;
        } else if (byte == kMove) {
            const unsigned across = take(), down = take();
            runs.move(across, down);
        } else {  // uncompressed pixels, in pairs of bytes
            const unsigned bytes = nibbles ? (byte + 1) / 2 : byte;
            for (unsigned i = 0; i < bytes; ++i) {
                const unsigned value = take();
                runs.put(nibbles ? value >> 4U : value);
                if (nibbles && 2 * i + 1 < byte) runs.put(value & 15U);
            }
            if (bytes % 2 == 1 && !runs.are_all()) take();
        }
    }
}

}  // namespace

ImageSize read_bmp_size(std::span<const std::byte> file, std::uint64_t most_pixels) {
    const ImageSize size = layout_of(file).size;
    check_pixels(size, most_pixels);
    return size;
}

void decode_bmp(std::span<const std::byte> file, ImageSize size, std::uint8_t* rgb) {
    const BmpLayout layout = layout_of(file);
    expect(layout.size == size, "a BMP is decoded in its own size");
    if (layout.packing == Packing::Runs8 || layout.packing == Packing::Runs4) {
        for (std::size_t i = 0; i < size.pixels(); ++i) std::memcpy(rgb + i * 3, layout.palette[0].data(), 3);
        decode_runs(layout, file.size(), rgb);
    } else {
        decode_plain(layout, file.size(), rgb);
    }
}

std::vector<std::uint8_t> bmp_alpha(std::span<const std::byte> file, ImageSize size) {
    BmpLayout layout = layout_of(file);
    if (layout.alpha_mask == 0) return {};
    layout.masks.fill(color_mask(layout.alpha_mask));
    std::vector<std::uint8_t> gray(size.rgb_bytes()), alpha(size.pixels());
    decode_plain(layout, file.size(), gray.data());
    for (std::size_t i = 0; i < alpha.size(); ++i) alpha[i] = gray[3 * i];
    return alpha;
}

}  // namespace offramp
