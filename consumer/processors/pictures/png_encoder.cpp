#include "consumer/processors/pictures/png_encoder.hpp"

#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstring>
#include <new>
#include <string>
#include <string_view>

#include "common/base/error.hpp"
#include "consumer/processors/pictures/png_bytes.hpp"
#include "consumer/processors/raw/row_chunks.hpp"

namespace offramp {
namespace {

constexpr std::size_t kIdatBytes = std::size_t{1} << 18U;
constexpr std::size_t kFrontBytes = 2048;                   // exceeds all chunks before and after the pixels
constexpr int kFastestLevel = 1, kSlowestFastLevel = 3;     // in this range ISA-L is faster than zlib and no larger
constexpr std::size_t kPieceBytes = std::size_t{1} << 20U;  // stays in a core's cache until it is compressed

bool is_of_classes(PngPixels kind) { return kind == PngPixels::Palette || kind == PngPixels::Ids; }

std::size_t bytes_of_pixel(PngPixels kind) { return kind == PngPixels::Rgba ? 4 : kind == PngPixels::Rgb ? 3 : 1; }

int colour_type_of(PngPixels kind) {
    switch (kind) {
        case PngPixels::Palette:
            return PNG_COLOR_TYPE_PALETTE;
        case PngPixels::Ids:
        case PngPixels::Gray:
            return PNG_COLOR_TYPE_GRAY;
        case PngPixels::Rgb:
            return PNG_COLOR_TYPE_RGB;
        case PngPixels::Rgba:
            break;
    }
    return PNG_COLOR_TYPE_RGB_ALPHA;
}

// The state of libpng's callbacks; no callback allocates or throws, as libpng's frames cannot be unwound.
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

// The functions below hold no objects with destructors, because libpng leaves them by longjmp. They return false on
// error: see Encoding::message. `palette` is null for pixels without one.
bool write_front(png_structp png, png_infop info, png_const_colorp palette, PngPixels kind, std::uint32_t width,
                 std::uint32_t height, int level, png_const_bytep profile = nullptr, std::size_t profile_bytes = 0) {
    if (setjmp(png_jmpbuf(png)) != 0) return false;
    png_set_user_limits(png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
    png_set_IHDR(png, info, width, height, 8, colour_type_of(kind), PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
                 PNG_FILTER_TYPE_DEFAULT);
    if (palette != nullptr) png_set_PLTE(png, info, palette, 256);
    // Any filter makes class maps larger and slower; subtracting neighbours halves photographs.
    png_set_filter(png, PNG_FILTER_TYPE_BASE, is_of_classes(kind) ? PNG_FILTER_NONE : PNG_FILTER_SUB);
    png_set_compression_level(png, level);
    png_set_compression_buffer_size(png, kIdatBytes);
    png_write_info(png, info);
    if (profile_bytes > 0) png_write_chunk(png, reinterpret_cast<png_const_bytep>("iCCP"), profile, profile_bytes);
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

std::array<std::uint8_t, 4> big_endian(std::uint32_t number) {
    return {static_cast<std::uint8_t>(number >> 24U), static_cast<std::uint8_t>(number >> 16U),
            static_cast<std::uint8_t>(number >> 8U), static_cast<std::uint8_t>(number)};
}

Error refused(std::uint32_t width, std::uint32_t height, std::string_view why) {
    return Error(ErrorKind::BadInput, "cannot make a PNG file of " + std::to_string(width) + " x " +
                                          std::to_string(height) + " pixels: " + std::string(why));
}

std::array<png_color, 256> colours_of(const PngPalette& palette) {
    std::array<png_color, 256> colours{};
    for (std::size_t id = 0; id < colours.size(); ++id) colours[id] = {palette[id][0], palette[id][1], palette[id][2]};
    return colours;
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
    expect(image.profile.empty() || image.kind == PngPixels::Rgb || image.kind == PngPixels::Rgba,
           "a profile is one of colours");
    pack(image.profile);
    const std::size_t raw_bytes = image.pixels.size() + image.height;  // a filter byte a row
    if (!fast_ || raw_bytes > FastDeflate::kMostBytes) return encode_by_libpng(image, row_bytes, raw_bytes, progress);
    return encode_fast(image, row_bytes, raw_bytes, progress);
}

// A name, the compression method, and a zlib stream.
void PngEncoder::pack(std::span<const std::byte> profile) {
    if (std::ranges::equal(profile, profile_)) return;
    profile_.assign(profile.begin(), profile.end());
    profile_chunk_.clear();
    if (profile.empty()) return;
    constexpr std::string_view kName("ICC profile\0\0", 13);
    std::vector<std::byte> stream(FastDeflate::room_for(profile.size()));
    FastDeflate deflate;
    deflate.begin(stream);
    deflate.add({reinterpret_cast<const std::uint8_t*>(profile.data()), profile.size()}, true);
    const auto* const packed = reinterpret_cast<const std::uint8_t*>(stream.data());
    profile_chunk_.assign(kName.begin(), kName.end());
    profile_chunk_.insert(profile_chunk_.end(), packed, packed + deflate.size());
}

std::span<const std::byte> PngEncoder::encode_by_libpng(const PngImage& image, std::size_t row_bytes,
                                                        std::size_t raw_bytes, const Progress& progress) {
    const auto palette = image.palette != nullptr ? colours_of(*image.palette) : std::array<png_color, 256>{};
    const std::size_t most = raw_bytes + raw_bytes / 8 + raw_bytes / 64 + 64;  // zlib's own bound for any level
    buffer_.resize(std::max(
        buffer_.size(), most + (most / kIdatBytes + 2) * PngChunks::kChunkBytes + kFrontBytes + profile_chunk_.size()));

    Encoding encoding{.room = buffer_};
    PngWriter writer(encoding);
    bool good = write_front(writer.png, writer.info, image.palette != nullptr ? palette.data() : nullptr, image.kind,
                            image.width, image.height, level_, profile_chunk_.data(), profile_chunk_.size());
    const auto rows_at_once = static_cast<std::uint32_t>(std::max<std::size_t>(1, kProgressBytes / row_bytes));
    for (std::uint32_t row = 0; good && row < image.height;) {
        const std::uint32_t rows = std::min(rows_at_once, image.height - row);
        good = write_rows(writer.png, image.pixels.data() + row * row_bytes, row_bytes, rows);
        row += rows;
        progress();
    }
    good = good && write_end(writer.png, writer.info);
    if (!good) throw refused(image.width, image.height, encoding.message.data());
    return std::span<const std::byte>(buffer_).first(encoding.used);
}

// Writes the file that libpng would make of the same stream. libpng contains zlib; another compressor needs none of the
// rest.
std::span<const std::byte> PngEncoder::encode_fast(const PngImage& image, std::size_t row_bytes, std::size_t raw_bytes,
                                                   const Progress& progress) {
    if (image.height == 0) throw refused(image.width, image.height, "it has no rows");
    const std::size_t most = FastDeflate::room_for(raw_bytes);
    buffer_.resize(std::max(buffer_.size(), most + kFrontBytes + profile_chunk_.size()));
    PngChunks file(buffer_);
    std::array<std::uint8_t, 13> header{};
    std::ranges::copy(big_endian(image.width), header.begin());
    std::ranges::copy(big_endian(image.height), header.begin() + 4);
    header[8] = 8;  // bits per channel. Compression, filter and interlacing stay 0: PNG defines one of each, or none
    header[9] = static_cast<std::uint8_t>(colour_type_of(image.kind));
    file.add("IHDR", header);
    if (!profile_chunk_.empty()) file.add("iCCP", profile_chunk_);
    if (image.palette != nullptr)
        file.add("PLTE",
                 std::span(image.palette->front().data(), image.palette->size() * image.palette->front().size()));
    file.end(compress(image, row_bytes, file.begin("IDAT").first(most), progress));
    file.add("IEND", {});
    progress();
    return file.file();
}

std::size_t PngEncoder::compress(const PngImage& image, std::size_t row_bytes, std::span<std::byte> room,
                                 const Progress& progress) {
    const std::size_t rows_at_once = std::max<std::size_t>(1, kPieceBytes / row_bytes);
    filtered_.resize(std::max(filtered_.size(), std::min<std::size_t>(rows_at_once, image.height) * (row_bytes + 1)));
    ProgressByBytes reported(progress);
    fast_->begin(room);
    const std::uint8_t* above = nullptr;
    for (auto left = image.pixels; !left.empty();) {
        const auto rows = left.first(std::min(left.size(), rows_at_once * row_bytes));
        left = left.subspan(rows.size());
        // Any filter makes class maps larger.
        if (is_of_classes(image.kind))
            copy_rows(rows, row_bytes, filtered_.data());
        else
            subtract_paeth(rows, row_bytes, bytes_of_pixel(image.kind), above, filtered_.data());
        above = &rows.back() - (row_bytes - 1);
        fast_->add(std::span(filtered_).first(rows.size() + rows.size() / row_bytes), left.empty());
        reported.add(rows.size());
    }
    return fast_->size();
}

void PngEncoder::encode_rows(ImageSize size, const PngPalette* palette, const TakeRows& take, const PutBytes& put,
                             const Progress& progress) {
    constexpr std::size_t kRowsBytes = std::size_t{4} << 20U;
    const auto rows_at_once = static_cast<std::uint32_t>(std::max<std::size_t>(1, kRowsBytes / size.width));
    // zlib's own bound for any level, and the bytes that it has taken but not yet output.
    const std::size_t most = rows_at_once * (std::size_t{size.width} + 1) + 4 * kIdatBytes;
    buffer_.resize(std::max(
        buffer_.size(), most + most / 8 + most / 64 + (most / kIdatBytes + 4) * PngChunks::kChunkBytes + kFrontBytes));
    const auto colours = palette != nullptr ? colours_of(*palette) : std::array<png_color, 256>{};
    const PngPixels kind = palette != nullptr ? PngPixels::Palette : PngPixels::Ids;
    Encoding encoding{.room = buffer_};
    PngWriter writer(encoding);
    const auto hand_on = [&](bool good) {
        if (!good) throw refused(size.width, size.height, encoding.message.data());
        put(std::span<const std::byte>(buffer_).first(encoding.used));
        encoding.used = 0;
        progress();
    };
    hand_on(write_front(writer.png, writer.info, palette != nullptr ? colours.data() : nullptr, kind, size.width,
                        size.height, level_));
    for (std::uint32_t row = 0; row < size.height;) {
        const std::uint32_t rows = std::min(rows_at_once, size.height - row);
        hand_on(write_rows(writer.png, take(row, rows).data(), size.width, rows));
        row += rows;
    }
    hand_on(write_end(writer.png, writer.info));
}

PalettePng::PalettePng(const CatalogueValues& settings) : PalettePng(PngEncoder(settings)) {
    if (settings.text("mask-palette") == "none") palette_.reset();
}

PngPalette voc_palette() {
    // Bits 0, 3 and 6 of the class become the highest bits of red; bits 1, 4 and 7 those of green; bits 2 and 5 those
    // of blue.
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
