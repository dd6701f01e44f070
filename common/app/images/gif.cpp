#include "common/app/images/whole_formats.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string>

#include "common/app/images/image_decode.hpp"
#include "common/app/images/unreadable_item.hpp"
#include "common/base/error.hpp"

namespace offramp {
namespace {

constexpr std::size_t kGifColors = 256;
constexpr unsigned kLongestGifCode = 12;  // bits
constexpr unsigned kGifCodes = 1U << kLongestGifCode;

using Palette = std::array<std::array<std::uint8_t, 3>, kGifColors>;

[[noreturn]] void refuse(const std::string& why) { throw UnreadableItem("damaged GIF: " + why); }

// A file's bytes, in order.
class GifBytes {
  public:
    explicit GifBytes(std::span<const std::byte> file) : file_(file), left_(file) {}

    // Errors: UnreadableItem: the file is too short.
    std::span<const std::byte> take(std::size_t bytes) {
        if (bytes > left_.size())
            throw UnreadableItem("truncated GIF: its " + std::to_string(file_.size()) +
                                 " bytes end before the image does");
        const auto taken = left_.first(bytes);
        left_ = left_.subspan(bytes);
        return taken;
    }
    unsigned number(std::size_t bytes) {
        unsigned value = 0, shift = 0;
        for (const std::byte byte : take(bytes)) value |= std::to_integer<unsigned>(byte) << shift, shift += 8;
        return value;
    }
    // Reads a data block (a length, then as many bytes); empty at the end of the blocks.
    std::span<const std::byte> block() { return take(number(1)); }

  private:
    std::span<const std::byte> file_, left_;
};

// The first picture of a file, and the position of its codes.
struct GifPicture {
    explicit GifPicture(GifBytes from) : codes(from) {}

    ImageSize canvas;
    PictureRect picture;
    bool interlaced = false;
    Palette palette{};
    std::optional<unsigned> transparent;  // index of a colour; also used around the picture
    GifBytes codes;
};

Palette gray_ramp() {
    Palette palette;
    for (std::size_t i = 0; i < kGifColors; ++i) palette[i].fill(static_cast<std::uint8_t>(i));
    return palette;
}

// `flags` (a screen's or a picture's) say if a palette follows, and how many colours it has.
void take_palette(GifBytes& bytes, unsigned flags, Palette& palette) {
    if ((flags & 0x80U) == 0) return;
    const auto colors = bytes.take(std::size_t{3} << ((flags & 7U) + 1));
    palette = {};
    std::memcpy(palette.data(), colors.data(), colors.size());
}

// The transparent colour of a graphic control extension.
void take_extension(GifBytes& bytes, std::optional<unsigned>& transparent) {
    constexpr unsigned kGraphicControl = 0xf9;
    const unsigned kind = bytes.number(1);
    auto block = bytes.block();
    if (kind == kGraphicControl && block.size() >= 4 && (block[0] & std::byte{1}) != std::byte{0})
        transparent = std::to_integer<unsigned>(block[3]);
    while (!block.empty()) block = bytes.block();
}

GifPicture first_picture(std::span<const std::byte> file) {
    GifBytes bytes(file);
    GifPicture found(bytes);
    bytes.take(6);  // GIF89a
    found.canvas.width = bytes.number(2);
    found.canvas.height = bytes.number(2);
    const unsigned screen = bytes.number(1);
    bytes.take(2);  // background and proportions, which are ignored
    found.palette = gray_ramp();
    take_palette(bytes, screen, found.palette);
    // Stray bytes between blocks are skipped.
    for (unsigned what = bytes.number(1); what != ','; what = bytes.number(1)) {
        if (what == ';') refuse("it holds no picture");
        if (what == '!') take_extension(bytes, found.transparent);
    }
    found.picture.left = bytes.number(2);
    found.picture.top = bytes.number(2);
    found.picture.size.width = bytes.number(2);
    found.picture.size.height = bytes.number(2);
    const unsigned flags = bytes.number(1);
    found.interlaced = (flags & 0x40U) != 0;
    take_palette(bytes, flags, found.palette);
    found.canvas = {std::max(found.canvas.width, found.picture.left + found.picture.size.width),
                    std::max(found.canvas.height, found.picture.top + found.picture.size.height)};
    if (found.picture.size.pixels() == 0) refuse("its first picture has no pixels");
    found.codes = bytes;
    return found;
}

// Receives a picture's pixels in order, and writes their colours to the right positions.
class GifPixels {
  public:
    GifPixels(const GifPicture& found, std::uint8_t* rgb) : found_(found), rgb_(rgb) { begin_row(); }

    bool are_all() const { return row_ >= found_.picture.size.height; }
    void put(std::uint8_t color) {
        std::memcpy(to_, found_.palette[color].data(), 3);
        to_ += 3;
        if (--left_ == 0) next_row();
    }

  private:
    void begin_row() {
        const std::size_t at = std::size_t{found_.picture.top + row_} * found_.canvas.width + found_.picture.left;
        to_ = rgb_ + at * 3;
        left_ = found_.picture.size.width;
    }
    void next_row() {
        row_ += found_.interlaced ? kPasses[pass_].step : 1;
        while (found_.interlaced && are_all() && pass_ + 1 < kPasses.size()) row_ = kPasses[++pass_].first;
        if (!are_all()) begin_row();
    }

    struct Pass {
        std::uint32_t first, step;
    };
    static constexpr std::array<Pass, 4> kPasses{{{0, 8}, {4, 8}, {2, 4}, {1, 2}}};  // passes over interlaced rows

    const GifPicture& found_;
    std::uint8_t* rgb_;
    std::size_t pass_ = 0;
    std::uint32_t row_ = 0, left_ = 0;  // left_: remaining pixels of the row
    std::uint8_t* to_ = nullptr;
};

// Reads codes of variable length, lowest bit first, across blocks.
class GifCodes {
  public:
    explicit GifCodes(GifBytes bytes) : bytes_(bytes) {}

    unsigned next(unsigned bits) {
        for (; have_ < bits; have_ += 8) {
            if (block_.empty()) block_ = bytes_.block();
            if (block_.empty()) refuse("its data end before the image does");
            waiting_ |= std::to_integer<unsigned>(block_.front()) << have_;
            block_ = block_.subspan(1);
        }
        const unsigned code = waiting_ & ((1U << bits) - 1);
        waiting_ >>= bits;
        have_ -= bits;
        return code;
    }

  private:
    GifBytes bytes_;
    std::span<const std::byte> block_;
    unsigned waiting_ = 0, have_ = 0;  // bits
};

// The colours of each code: an earlier code's colours, and one more.
class GifTable {
  public:
    explicit GifTable(unsigned color_bits) : color_bits_(color_bits) { clear(); }

    unsigned clear_code() const { return 1U << color_bits_; }
    unsigned end_code() const { return clear_code() + 1; }
    unsigned code_bits() const { return code_bits_; }
    void clear() {
        next_ = end_code() + 1;
        code_bits_ = color_bits_ + 1;
        last_ = kNone;
    }

    // Writes the colours of the next code, up to the number of remaining pixels.
    void put(unsigned code, GifPixels& pixels) {
        const bool is_next = code == next_ && last_ != kNone && next_ < kGifCodes;
        if (code >= next_ && !is_next) refuse("an undefined code");
        std::size_t count = is_next ? 1 : 0;  // its last colour equals its first
        unsigned from = is_next ? last_ : code;
        for (; from > end_code(); from = links_[from].before) colors_[count++] = links_[from].color;
        const auto begin = static_cast<std::uint8_t>(from);
        colors_[count++] = begin;
        if (is_next) colors_[0] = begin;
        if (last_ != kNone && next_ < kGifCodes) {
            links_[next_++] = {static_cast<std::uint16_t>(last_), begin};
            if (next_ == (1U << code_bits_) && code_bits_ < kLongestGifCode) ++code_bits_;
        }
        last_ = code;
        while (count > 0 && !pixels.are_all()) pixels.put(colors_[--count]);
    }

  private:
    struct Link {
        std::uint16_t before;
        std::uint8_t color;
    };
    static constexpr unsigned kNone = kGifCodes;  // after a clear code: no code yet

    unsigned color_bits_, next_ = 0, code_bits_ = 0, last_ = kNone;
    std::array<Link, kGifCodes> links_{};
    std::array<std::uint8_t, kGifCodes + 1> colors_{};  // of one code, in reverse order
};

// Decodes with a palette, which need not be the file's.
void decode(GifPicture found, const Palette& palette, std::uint8_t* rgb) {
    found.palette = palette;
    const unsigned color_bits = found.codes.number(1);
    if (color_bits < 1 || color_bits > 8) refuse("colours of " + std::to_string(color_bits) + " bits");
    const auto& around = palette[found.transparent.value_or(0)];
    for (std::size_t i = 0; i < found.canvas.pixels(); ++i) std::memcpy(rgb + i * 3, around.data(), 3);
    GifPixels pixels(found, rgb);
    GifCodes codes(found.codes);
    GifTable table(color_bits);
    while (!pixels.are_all()) {
        const unsigned code = codes.next(table.code_bits());
        if (code == table.end_code()) refuse("its data end before the image does");
        if (code == table.clear_code())
            table.clear();
        else
            table.put(code, pixels);
    }
}

}  // namespace

ImageSize read_gif_size(std::span<const std::byte> file, std::uint64_t most_pixels) {
    const ImageSize size = first_picture(file).canvas;
    check_pixels(size, most_pixels);
    return size;
}

void decode_gif(std::span<const std::byte> file, ImageSize size, std::uint8_t* rgb) {
    const GifPicture found = first_picture(file);
    expect(found.canvas == size, "a GIF is decoded in its own size");
    decode(found, found.palette, rgb);
}

std::vector<std::uint8_t> gif_alpha(std::span<const std::byte> file, ImageSize size) {
    const GifPicture found = first_picture(file);
    expect(found.canvas == size, "a GIF is decoded in its own size");
    if (!found.transparent) return {};
    Palette seen;
    seen.fill({255, 255, 255});
    seen[*found.transparent] = {};
    std::vector<std::uint8_t> gray(size.rgb_bytes()), alpha(size.pixels());
    decode(found, seen, gray.data());
    for (std::size_t i = 0; i < alpha.size(); ++i) alpha[i] = gray[3 * i];
    return alpha;
}

}  // namespace offramp
