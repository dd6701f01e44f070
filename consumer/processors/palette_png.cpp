#include "consumer/processors/palette_png.hpp"

#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstring>
#include <new>
#include <string>

#include "common/base/error.hpp"
#include "consumer/processors/row_chunks.hpp"

namespace offramp {
namespace {

constexpr std::size_t kIdatBytes = std::size_t{1} << 18U;

// What libpng's callbacks work on; no callback allocates or throws, as libpng's frames cannot be unwound.
struct Encoding {
    std::span<std::byte> room;
    std::size_t used = 0;
    std::array<char, 128> message{};
};

void append_bytes(png_structp png, png_bytep bytes, png_size_t size) {
    auto& encoding = *static_cast<Encoding*>(png_get_io_ptr(png));
    if (size > encoding.room.size() - encoding.used) png_error(png, "the image is larger than zlib's bound");
    std::memcpy(encoding.room.data() + encoding.used, bytes, size);
    encoding.used += size;
}

void keep_message(png_structp png, png_const_charp text) {
    auto& message = static_cast<Encoding*>(png_get_error_ptr(png))->message;
    std::strncpy(message.data(), text, message.size() - 1);
    png_longjmp(png, 1);
}

void ignore_warning(png_structp /*png*/, png_const_charp /*text*/) {}

struct PngWriter {
    explicit PngWriter(Encoding& encoding)
        : png(png_create_write_struct(PNG_LIBPNG_VER_STRING, &encoding, keep_message, ignore_warning)),
          info(png == nullptr ? nullptr : png_create_info_struct(png)) {
        if (info == nullptr) {
            png_destroy_write_struct(&png, nullptr);
            throw std::bad_alloc();
        }
        png_set_write_fn(png, &encoding, append_bytes, nullptr);
    }
    PngWriter(const PngWriter&) = delete;
    PngWriter& operator=(const PngWriter&) = delete;
    ~PngWriter() { png_destroy_write_struct(&png, &info); }

    png_structp png;
    png_infop info;
};

// The functions below hold nothing that needs destroying: libpng leaves them by longjmp. False: see
// Encoding::message.
bool write_front(png_structp png, png_infop info, png_const_colorp palette, std::uint32_t width,
                 std::uint32_t height, int level) {
    if (setjmp(png_jmpbuf(png)) != 0) return false;
    png_set_user_limits(png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
    png_set_IHDR(png, info, width, height, 8, PNG_COLOR_TYPE_PALETTE, PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_set_PLTE(png, info, palette, 256);
    png_set_filter(png, PNG_FILTER_TYPE_BASE, PNG_FILTER_NONE);
    png_set_compression_level(png, level);
    png_set_compression_buffer_size(png, kIdatBytes);
    png_write_info(png, info);
    return true;
}

bool write_rows(png_structp png, const std::uint8_t* ids, std::size_t width, std::uint32_t rows) {
    if (setjmp(png_jmpbuf(png)) != 0) return false;
    for (std::uint32_t row = 0; row < rows; ++row) png_write_row(png, ids + row * width);
    return true;
}

bool write_end(png_structp png, png_infop info) {
    if (setjmp(png_jmpbuf(png)) != 0) return false;
    png_write_end(png, info);
    return true;
}

}  // namespace

std::array<std::array<std::uint8_t, 3>, 256> voc_palette() {
    // Bit 0, 3, 6 of the class go to the highest bits of red, bit 1, 4, 7 to green's, 2 and 5 to blue's.
    std::array<std::array<std::uint8_t, 3>, 256> palette{};
    for (unsigned id = 0; id < 256; ++id)
        for (unsigned bit = 0; bit < 8; ++bit) {
            auto& channel = palette[id][bit % 3];
            channel = static_cast<std::uint8_t>(channel | (((id >> bit) & 1U) << (7U - bit / 3)));
        }
    return palette;
}

std::span<const std::byte> PalettePng::encode(std::span<const std::uint8_t> ids, std::uint32_t width,
                                              std::uint32_t height, const Progress& progress) {
    expect(width > 0 && ids.size() == std::size_t{width} * height, "an image has width times height ids");
    const std::size_t raw_bytes = ids.size() + height;  // a filter byte a row
    const std::size_t bound =
        raw_bytes + raw_bytes / 8 + raw_bytes / 64 + 64;  // zlib's own bound for any level
    buffer_.resize(bound + (bound / kIdatBytes + 2) * 12 + 2048);
    std::array<png_color, 256> palette{};
    const auto colours = voc_palette();
    for (std::size_t id = 0; id < colours.size(); ++id)
        palette[id] = {colours[id][0], colours[id][1], colours[id][2]};

    Encoding encoding{.room = buffer_};
    PngWriter writer(encoding);
    bool good = write_front(writer.png, writer.info, palette.data(), width, height, level_);
    const auto rows_at_once = static_cast<std::uint32_t>(std::max<std::size_t>(1, kProgressBytes / width));
    for (std::uint32_t row = 0; good && row < height;) {
        const std::uint32_t rows = std::min(rows_at_once, height - row);
        good = write_rows(writer.png, ids.data() + std::size_t{row} * width, width, rows);
        row += rows;
        progress();
    }
    good = good && write_end(writer.png, writer.info);
    if (!good)
        throw Error(ExitCode::BadInput, "cannot make a PNG file of " + std::to_string(width) + " x " +
                                            std::to_string(height) + " pixels: " + encoding.message.data());
    return std::span<const std::byte>(buffer_).first(encoding.used);
}

}  // namespace offramp
