#include "consumer/processors/pictures/png_encoder.hpp"

#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstring>
#include <new>
#include <string>
#include <string_view>

#include "common/base/error.hpp"
#include "consumer/processors/pictures/png_rows.hpp"
#include "consumer/processors/raw/row_chunks.hpp"

namespace offramp {
namespace {

// Every program reads them from here: common/settings/catalogue.md.
[[maybe_unused]] constexpr std::string_view kPngSettings = R"settings(
[[setting]]
flag = "png-level"
kind = "whole"
least = 0
most = 9
preset = 3
changes = "conduct"
help = "Compression of PNG files: 0 none, 1 fast, 9 smallest"
)settings";

constexpr std::size_t kIdatBytes = std::size_t{1} << 18U;
constexpr std::size_t kFrontBytes = 2048;                // more than what stands before and behind the pixels
constexpr std::size_t kChunkBytes = 12;                  // of a chunk, beside its data
constexpr int kFastestLevel = 1, kSlowestFastLevel = 3;  // where libdeflate is faster than zlib for photographs

std::size_t bytes_of_pixel(PngPixels kind) { return kind == PngPixels::Rgba ? 4 : kind == PngPixels::Rgb ? 3 : 1; }

int colour_type_of(PngPixels kind) {
    switch (kind) {
        case PngPixels::Palette:
            return PNG_COLOR_TYPE_PALETTE;
        case PngPixels::Gray:
            return PNG_COLOR_TYPE_GRAY;
        case PngPixels::Rgb:
            return PNG_COLOR_TYPE_RGB;
        case PngPixels::Rgba:
            break;
    }
    return PNG_COLOR_TYPE_RGB_ALPHA;
}

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
// `palette` is null for pixels that have none.
bool write_front(png_structp png, png_infop info, png_const_colorp palette, int colour_type, std::uint32_t width,
                 std::uint32_t height, int level) {
    if (setjmp(png_jmpbuf(png)) != 0) return false;
    png_set_user_limits(png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
    png_set_IHDR(png, info, width, height, 8, colour_type, PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
                 PNG_FILTER_TYPE_DEFAULT);
    if (palette != nullptr) png_set_PLTE(png, info, palette, 256);
    // Class maps become larger and slower with any filter; photographs are half as large with their neighbours taken
    // off.
    png_set_filter(png, PNG_FILTER_TYPE_BASE, palette != nullptr ? PNG_FILTER_NONE : PNG_FILTER_SUB);
    png_set_compression_level(png, level);
    png_set_compression_buffer_size(png, kIdatBytes);
    png_write_info(png, info);
    return true;
}

bool write_rows(png_structp png, const std::uint8_t* pixels, std::size_t row_bytes, std::uint32_t rows) {
    if (setjmp(png_jmpbuf(png)) != 0) return false;
    for (std::uint32_t row = 0; row < rows; ++row) png_write_row(png, pixels + row * row_bytes);
    return true;
}

bool write_end(png_structp png, png_infop info) {
    if (setjmp(png_jmpbuf(png)) != 0) return false;
    png_write_end(png, info);
    return true;
}

// The pixels as they have been compressed, and the end.
bool write_stream(png_structp png, const std::byte* stream, std::size_t bytes) {
    if (setjmp(png_jmpbuf(png)) != 0) return false;
    for (std::size_t at = 0; at < bytes; at += kIdatBytes)
        png_write_chunk(png, reinterpret_cast<png_const_bytep>("IDAT"), reinterpret_cast<png_const_bytep>(stream + at),
                        std::min(kIdatBytes, bytes - at));
    png_write_chunk(png, reinterpret_cast<png_const_bytep>("IEND"), nullptr, 0);
    return true;
}

int checked_level(std::int64_t level) {
    if (level < 0 || level > 9)
        throw ConfigError("--png-level is " + std::to_string(level), "zlib's levels are 0 to 9");
    return static_cast<int>(level);
}

}  // namespace

PngEncoder::PngEncoder(const CatalogueValues& settings) : PngEncoder(checked_level(settings.number("png-level"))) {}

PngEncoder::PngEncoder(int level) : level_(level) {
    if (level >= kFastestLevel && level <= kSlowestFastLevel) fast_.emplace();
}

std::span<const std::byte> PngEncoder::encode(const PngImage& image, const Progress& progress) {
    const std::size_t row_bytes = image.width * bytes_of_pixel(image.kind);
    expect(image.width > 0 && image.pixels.size() == row_bytes * image.height,
           "an image has width times height pixels");
    expect((image.kind == PngPixels::Palette) == (image.palette != nullptr), "pixels of a palette have one");
    std::array<png_color, 256> palette{};
    if (image.palette != nullptr)
        for (std::size_t id = 0; id < palette.size(); ++id) {
            const auto& colour = (*image.palette)[id];
            palette[id] = {colour[0], colour[1], colour[2]};
        }
    const std::size_t raw_bytes = image.pixels.size() + image.height;  // a filter byte a row
    // All at once, so nothing can be told meanwhile: larger ones are compressed some rows at a time.
    const bool is_fast = fast_ && image.kind != PngPixels::Palette && raw_bytes <= kProgressBytes;
    const auto stream = is_fast ? compress_fast(image, row_bytes) : std::span<const std::byte>();
    const std::size_t most =
        is_fast ? stream.size() : raw_bytes + raw_bytes / 8 + raw_bytes / 64 + 64;  // zlib's own bound for any level
    buffer_.resize(std::max(buffer_.size(), most + (most / kIdatBytes + 2) * kChunkBytes + kFrontBytes));

    Encoding encoding{.room = buffer_};
    PngWriter writer(encoding);
    bool good = write_front(writer.png, writer.info, image.palette != nullptr ? palette.data() : nullptr,
                            colour_type_of(image.kind), image.width, image.height, level_);
    if (is_fast) {
        good = good && write_stream(writer.png, stream.data(), stream.size());
        progress();
    } else {
        const auto rows_at_once = static_cast<std::uint32_t>(std::max<std::size_t>(1, kProgressBytes / row_bytes));
        for (std::uint32_t row = 0; good && row < image.height;) {
            const std::uint32_t rows = std::min(rows_at_once, image.height - row);
            good = write_rows(writer.png, image.pixels.data() + row * row_bytes, row_bytes, rows);
            row += rows;
            progress();
        }
        good = good && write_end(writer.png, writer.info);
    }
    if (!good)
        throw Error(ErrorKind::BadInput, "cannot make a PNG file of " + std::to_string(image.width) + " x " +
                                             std::to_string(image.height) + " pixels: " + encoding.message.data());
    return std::span<const std::byte>(buffer_).first(encoding.used);
}

// With the filter that write_front() tells libpng.
std::span<const std::byte> PngEncoder::compress_fast(const PngImage& image, std::size_t row_bytes) {
    filtered_.resize(image.pixels.size() + image.height);
    subtract_left(image.pixels, row_bytes, bytes_of_pixel(image.kind), filtered_.data());
    return fast_->compress(filtered_);
}

}  // namespace offramp
