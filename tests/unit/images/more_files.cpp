#include "tests/unit/images/more_files.hpp"

#include <algorithm>
#include <map>

namespace offramp {
namespace {

std::string number(std::uint64_t value, unsigned bytes) {
    std::string text;
    for (unsigned i = 0; i < bytes; ++i) text += static_cast<char>((value >> (8 * i)) & 0xff);
    return text;
}

std::string text_of(const Rgb& bytes) { return {bytes.begin(), bytes.end()}; }

// Codes of rising length, as blocks.
class GifCodeWriter {
  public:
    void put(unsigned code, unsigned bits) {
        waiting_ |= std::uint64_t{code} << have_;
        for (have_ += bits; have_ >= 8; have_ -= 8, waiting_ >>= 8) bytes_ += static_cast<char>(waiting_ & 0xff);
    }
    std::string blocks() {
        if (have_ > 0) bytes_ += static_cast<char>(waiting_);
        std::string all;
        for (std::size_t at = 0; at < bytes_.size(); at += 255) {
            const std::string block = bytes_.substr(at, 255);
            all += number(block.size(), 1) + block;
        }
        return all + '\0';
    }

  private:
    std::string bytes_;
    std::uint64_t waiting_ = 0;
    unsigned have_ = 0;
};

std::string gif_codes(const std::vector<std::uint8_t>& colors, unsigned color_bits) {
    const unsigned clear = 1U << color_bits;
    GifCodeWriter writer;
    std::map<std::string, unsigned> table;
    unsigned bits = 0, next = 0;
    const auto begin = [&] {
        table.clear();
        for (unsigned i = 0; i < clear; ++i) table[std::string(1, static_cast<char>(i))] = i;
        bits = color_bits + 1;
        next = clear + 2;
    };
    begin();
    writer.put(clear, bits);
    std::string known;
    for (const std::uint8_t color : colors) {
        const std::string longer = known + static_cast<char>(color);
        if (table.contains(longer)) {
            known = longer;
            continue;
        }
        writer.put(table.at(known), bits);
        if (next == 4096) {
            writer.put(clear, bits);
            begin();
        } else {
            table[longer] = next++;
            if (next > (1U << bits) && bits < 12) ++bits;
        }
        known = std::string(1, static_cast<char>(color));
    }
    writer.put(table.at(known), bits);
    // The decoder has one more code by now.
    if (next == (1U << bits) && bits < 12) ++bits;
    writer.put(clear + 1, bits);
    return writer.blocks();
}

}  // namespace

std::string encode_gif(const GifFile& gif) {
    const auto flags = [&](const Rgb& palette) { return palette.empty() ? 0U : 0x80U | (gif.color_bits - 1); };
    std::string file = "GIF89a" + number(gif.canvas.width, 2) + number(gif.canvas.height, 2) +
                       number(flags(gif.palette), 1) + number(0, 2) + text_of(gif.palette);
    if (gif.transparent) file += "!\xf9\x04" + number(1, 3) + number(*gif.transparent, 1) + '\0';
    const auto& [left, top, size] = gif.picture;
    file += gif.between + "," + number(left, 2) + number(top, 2) + number(size.width, 2) + number(size.height, 2) +
            number(flags(gif.own_palette) | (gif.interlaced ? 0x40U : 0U), 1) + text_of(gif.own_palette);
    std::vector<std::uint8_t> colors;
    struct Pass {
        std::uint32_t first, step;
    };
    const std::vector<Pass> passes =
        gif.interlaced ? std::vector<Pass>{{0, 8}, {4, 8}, {2, 4}, {1, 2}} : std::vector<Pass>{{0, 1}};
    for (const Pass& pass : passes)
        for (std::uint32_t y = pass.first; y < size.height; y += pass.step)
            colors.insert(colors.end(), gif.colors.begin() + static_cast<std::ptrdiff_t>(y * size.width),
                          gif.colors.begin() + static_cast<std::ptrdiff_t>((y + 1) * size.width));
    const unsigned code_bits = std::max(2U, gif.color_bits);
    return file + number(code_bits, 1) + gif_codes(colors, code_bits) + ";";
}

GifFile gif_of(ImageSize size) {
    GifFile gif{.canvas = size, .picture = {.left = 0, .top = 0, .size = size}, .colors = {}, .palette = {}};
    const Rgb random = noise({64, 64});
    for (std::size_t i = 0; i < size.pixels(); ++i)
        gif.colors.push_back(i % 7 < 3 ? static_cast<std::uint8_t>(i / 40) : random[i % random.size()]);
    gif.palette.assign(random.begin(), random.begin() + 3 * 256);
    return gif;
}

Rgb pixels_of(const GifFile& gif, const Rgb& palette) {
    Rgb pixels;
    for (const std::uint8_t color : gif.colors)
        for (std::size_t i = 0; i < 3; ++i) pixels.push_back(palette[std::size_t{color} * 3 + i]);
    return pixels;
}

std::string encode_bmp(const BmpFile& bmp) {
    std::string header = number(bmp.header, 4);
    if (bmp.header == 12) {
        header += number(bmp.size.width, 2) + number(bmp.size.height, 2) + number(1, 2) + number(bmp.bits, 2);
    } else {
        header += number(bmp.size.width, 4) + number(bmp.top_down ? 0U - bmp.size.height : bmp.size.height, 4) +
                  number(1, 2) + number(bmp.bits, 2) + number(bmp.compression, 4) + number(bmp.rows.size(), 4) +
                  number(0, 8) + number(bmp.palette.size() / 4, 4) + number(0, 4);
        for (const std::uint32_t mask : bmp.masks) header += number(mask, 4);
        if (header.size() < bmp.header) header.append(bmp.header - header.size(), '\0');
    }
    const std::size_t begin = 14 + header.size() + bmp.palette.size();
    return "BM" + number(begin + bmp.rows.size(), 4) + number(0, 4) + number(begin, 4) + header + bmp.palette +
           bmp.rows;
}

std::string animated_webp(ImageSize canvas, const std::vector<WebpFrame>& frames, bool has_alpha) {
    const auto chunk = [](const std::string& name, const std::string& bytes) {
        return name + number(bytes.size(), 4) + bytes + std::string(bytes.size() % 2, '\0');
    };
    std::string all = "WEBP" + chunk("VP8X", number(has_alpha ? 0x12 : 0x02, 4) + number(canvas.width - 1, 3) +
                                                 number(canvas.height - 1, 3));
    all += chunk("ANIM", number(0xff4080c0, 4) + number(0, 2));
    for (const auto& [place, webp] : frames)
        all += chunk("ANMF", number(place.left / 2, 3) + number(place.top / 2, 3) + number(place.size.width - 1, 3) +
                                 number(place.size.height - 1, 3) + number(40, 3) + number(0, 1) + webp.substr(12));
    return "RIFF" + number(all.size(), 4) + all;
}

}  // namespace offramp
