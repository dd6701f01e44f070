#include "common/app/images/tiff_pixels.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "common/app/images/image_format.hpp"
#include "common/app/images/unreadable_item.hpp"
#include "common/base/error.hpp"

namespace offramp {
namespace {

constexpr std::uint32_t kPixelsAtOnce = 1024;

// Unpacks `count` samples from sample `first` on, to each `every`-th element of `to`.
void unpack(const std::uint8_t* line, unsigned bits, std::size_t first, std::size_t count, std::uint16_t* to,
            std::size_t every) {
    if (bits == 8) {
        for (std::size_t i = 0; i < count; ++i) to[i * every] = line[first + i];
        return;
    }
    if (bits == 16) {
        for (std::size_t i = 0; i < count; ++i) std::memcpy(to + i * every, line + (first + i) * 2, 2);
        return;
    }
    const unsigned mask = (1U << bits) - 1;
    for (std::size_t i = 0; i < count; ++i) {
        const std::size_t bit = (first + i) * bits;
        to[i * every] = static_cast<std::uint16_t>((line[bit / 8] >> (8 - bits - bit % 8)) & mask);
    }
}

template <class Number>
float to_float(Number number) {
    return static_cast<float>(number);
}
// A conversion out of range is undefined.
float to_float(double number) {
    constexpr double kMost = std::numeric_limits<float>::max();
    if (std::abs(number) <= kMost || !std::isfinite(number)) return static_cast<float>(number);
    return std::copysign(std::numeric_limits<float>::infinity(), static_cast<float>(std::copysign(1.0, number)));
}

template <class Number>
void in_float32(const std::uint8_t* line, std::size_t first, std::size_t count, std::size_t every, std::uint8_t* to) {
    for (std::size_t i = 0; i < count; ++i) {
        Number number{};
        std::memcpy(&number, line + (first + i) * sizeof number, sizeof number);
        const float value = to_float(number);
        std::memcpy(to + i * every * sizeof value, &value, sizeof value);
    }
}

// The types of Numbers. Other sizes, such as half precision, are not read.
using ToNumbers = void (*)(const std::uint8_t*, std::size_t, std::size_t, std::size_t, std::uint8_t*);
ToNumbers to_numbers_of(std::uint16_t form, unsigned bits) {
    if (form == SAMPLEFORMAT_UINT || form == SAMPLEFORMAT_VOID)
        return bits == 8 ? in_float32<std::uint8_t> : bits == 16 ? in_float32<std::uint16_t> : nullptr;
    if (form == SAMPLEFORMAT_INT)
        return bits == 8 ? in_float32<std::int8_t> : bits == 16 ? in_float32<std::int16_t> : nullptr;
    if (form == SAMPLEFORMAT_IEEEFP) return bits == 32 ? in_float32<float> : bits == 64 ? in_float32<double> : nullptr;
    return nullptr;
}

std::uint8_t in_8_bits(std::uint32_t value, unsigned bits) {
    if (bits == 8) return static_cast<std::uint8_t>(value);
    if (bits == 16) return in_8_of_16_bits(value);
    return static_cast<std::uint8_t>(value * 255 / ((1U << bits) - 1));
}

// Converts 8-bit inks (0: no ink), with the rounding of PIL's convert("RGB").
void rgb_of_inks(const std::array<std::uint8_t, 4>& inks, std::uint8_t* rgb) {
    const unsigned light = 255U - inks[3];
    for (std::size_t c = 0; c < 3; ++c) {
        const unsigned product = inks[c] * light + 128U;
        rgb[c] = static_cast<std::uint8_t>(light - ((product + (product >> 8U)) >> 8U));
    }
}

constexpr std::uint32_t kMostSamples = 64;
constexpr const char* kConvertTiff = "Convert it, for example with ImageMagick, to RGB of 8 bits";
constexpr const char* kConvertNumbers =
    "Convert it, for example with `gdal_translate -ot Float32 -co COMPRESS=DEFLATE`";

std::string name_of_compression(std::uint16_t compression) {
    switch (compression) {
        case COMPRESSION_OJPEG:
            return "old-style JPEG (6)";
        case COMPRESSION_WEBP:
            return "WebP";
        case COMPRESSION_CCITTRLE:
        case COMPRESSION_CCITTRLEW:
        case COMPRESSION_CCITTFAX3:
            return "CCITT Group 3";  // libtiff does not detect a file that is truncated in its last row
        case COMPRESSION_LZMA:
            return "LZMA";
        case COMPRESSION_LERC:
            return "LERC";
        case COMPRESSION_JXL:
            return "JPEG XL";
        case 33003:
        case 33005:
        case COMPRESSION_JP2000:
            return "JPEG 2000";
        default:
            return "type " + std::to_string(compression);
    }
}

std::string name_of_colours(std::uint16_t photometric) {
    switch (photometric) {
        case PHOTOMETRIC_SEPARATED:
            return "inks other than CMYK";
        case PHOTOMETRIC_YCBCR:
            return "YCbCr colours without JPEG compression";
        case PHOTOMETRIC_CIELAB:
        case PHOTOMETRIC_ICCLAB:
        case PHOTOMETRIC_ITULAB:
            return "L*a*b* colours";
        case PHOTOMETRIC_LOGL:
        case PHOTOMETRIC_LOGLUV:
            return "LogLuv colours";
        case PHOTOMETRIC_CFA:
            return "a camera's raw data";
        case PHOTOMETRIC_MASK:
            return "a transparency mask's pixels";
        default:
            return "colours of type " + std::to_string(photometric);
    }
}

[[noreturn]] void refuse_layout(const std::string& what, const char* read, const char* fix = kConvertTiff) {
    throw UnreadableItem("TIFF with " + what + "; only " + read + ". " + fix);
}

void check_compression(TIFF* tiff, const char* fix) {
    constexpr std::array<std::uint16_t, 8> kRead{COMPRESSION_NONE,    COMPRESSION_LZW,      COMPRESSION_ADOBE_DEFLATE,
                                                 COMPRESSION_DEFLATE, COMPRESSION_JPEG,     COMPRESSION_PACKBITS,
                                                 COMPRESSION_ZSTD,    COMPRESSION_CCITTFAX4};
    const auto compression = tiff_field<std::uint16_t>(tiff, TIFFTAG_COMPRESSION, COMPRESSION_NONE);
    if (std::ranges::find(kRead, compression) == kRead.end() || libtiff().is_codec_configured(compression) == 0)
        refuse_layout("compression by " + name_of_compression(compression),
                      "none, LZW, Deflate, ZSTD, JPEG, PackBits and CCITT Group 4 are read", fix);
}

// Lets libtiff convert JPEG's YCbCr to RGB.
void convert_jpeg_colours(TIFF* tiff) {
    if (tiff_field<std::uint16_t>(tiff, TIFFTAG_PLANARCONFIG, PLANARCONFIG_CONTIG) != PLANARCONFIG_CONTIG)
        refuse_layout("JPEG's YCbCr colours in separate planes", "interleaved ones are read");
    libtiff().set_field(tiff, TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);
}

void check_numbers(TIFF* tiff, std::uint16_t form, unsigned bits) {
    if (to_numbers_of(form, bits) == nullptr)
        refuse_layout((form == SAMPLEFORMAT_UINT || form == SAMPLEFORMAT_VOID ? "whole numbers of "
                       : form == SAMPLEFORMAT_INT                             ? "signed numbers of "
                       : form == SAMPLEFORMAT_IEEEFP                          ? "floating-point numbers of "
                                                                              : "complex numbers of ") +
                          std::to_string(bits) + " bits",
                      "whole numbers of 8 and 16 bits, and floating-point numbers of 32 and 64 bits are read",
                      kConvertNumbers);
    const auto compression = tiff_field<std::uint16_t>(tiff, TIFFTAG_COMPRESSION, COMPRESSION_NONE);
    if (tiff_field<std::uint16_t>(tiff, TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_MINISBLACK) != PHOTOMETRIC_YCBCR) return;
    if (compression != COMPRESSION_JPEG)
        refuse_layout(name_of_colours(PHOTOMETRIC_YCBCR), "channels of one size are read", kConvertNumbers);
    convert_jpeg_colours(tiff);
}

std::vector<std::uint8_t> tiff_palette(const TiffHandle& handle, unsigned bits) {
    std::uint16_t *red = nullptr, *green = nullptr, *blue = nullptr;
    if (libtiff().get_field(handle.get(), TIFFTAG_COLORMAP, &red, &green, &blue) != 1)
        throw UnreadableItem("damaged TIFF: its pixels are palette indices, but it has no palette");
    const std::size_t colours = std::size_t{1} << bits;
    const auto fits = [colours](const std::uint16_t* of) {
        return std::all_of(of, of + colours, [](auto v) { return v < 256; });
    };
    const unsigned shift = fits(red) && fits(green) && fits(blue) ? 0 : 8;  // some writers use 8 bits
    std::vector<std::uint8_t> palette;
    for (std::size_t i = 0; i < colours; ++i)
        for (const std::uint16_t* const of : {red, green, blue})
            palette.push_back(static_cast<std::uint8_t>(of[i] >> shift));
    return palette;
}

}  // namespace

TiffColors TiffColors::of_alpha() const {
    expect(alpha.has_value(), "there is an alpha");
    TiffColors gray = *this;
    gray.kind = Kind::Gray;
    gray.first = *alpha;
    gray.multiplied_by.reset();
    return gray;
}

std::vector<std::uint16_t> TiffColors::seen_samples() const {
    std::vector<std::uint16_t> seen;
    for (std::uint32_t sample = 0; sample < colour_samples(); ++sample)
        seen.push_back(static_cast<std::uint16_t>(first + sample));
    if (multiplied_by) seen.push_back(static_cast<std::uint16_t>(*multiplied_by));
    return seen;
}

TiffLines::TiffLines(TiffColors colours) : colours_(std::move(colours)) {
    expect(colours_.kind != TiffColors::Kind::Palette || colours_.palette.size() == (std::size_t{3} << colours_.bits),
           "a palette has a colour for each number");
    expect(colours_.seen_samples().back() < colours_.samples, "samples that are looked at are there");
}

void TiffLines::to_rgb(const std::uint8_t* line, std::uint32_t first, std::uint32_t count, std::uint8_t* rgb) {
    if (colours_.kind == TiffColors::Kind::Rgb && colours_.bits == 8 && !colours_.multiplied_by) {
        const std::uint8_t* from = line + std::size_t{first} * colours_.samples;
        if (colours_.samples == 3) {
            std::memcpy(rgb, from, std::size_t{count} * 3);
            return;
        }
        for (std::uint32_t i = 0; i < count; ++i, from += colours_.samples, rgb += 3) std::memcpy(rgb, from, 3);
        return;
    }
    const std::size_t samples = colours_.samples;
    values_.resize(std::min(count, kPixelsAtOnce) * samples);
    for (std::uint32_t done = 0, some = 0; done < count; done += some, rgb += std::size_t{some} * 3) {
        some = std::min(count - done, kPixelsAtOnce);
        unpack(line, colours_.bits, (std::size_t{first} + done) * samples, some * samples, values_.data(), 1);
        colour(some, colours_.samples, colours_.first, colours_.multiplied_by.value_or(0), rgb);
    }
}

void TiffLines::planes_to_rgb(const std::vector<const std::uint8_t*>& lines, std::uint32_t first, std::uint32_t count,
                              std::uint8_t* rgb) {
    const auto samples = static_cast<std::uint32_t>(lines.size());
    expect(samples == colours_.colour_samples() + (colours_.multiplied_by ? 1 : 0),
           "there is a line for each sample that is looked at");
    values_.resize(std::size_t{std::min(count, kPixelsAtOnce)} * samples);
    for (std::uint32_t done = 0, some = 0; done < count; done += some, rgb += std::size_t{some} * 3) {
        some = std::min(count - done, kPixelsAtOnce);
        for (std::uint32_t sample = 0; sample < samples; ++sample)
            unpack(lines[sample], colours_.bits, std::size_t{first} + done, some, values_.data() + sample, samples);
        colour(some, samples, 0, colours_.colour_samples(), rgb);
    }
}

void TiffLines::to_numbers(const std::uint8_t* line, std::size_t first, std::size_t count, std::size_t every,
                           std::uint8_t* to) const {
    to_numbers_of(colours_.form, colours_.bits)(line, first, count, every, to);
}

// values_ has `samples` values per pixel. The colours begin at index `first`; `alpha` is the index of the premultiplied
// alpha, if any.
void TiffLines::colour(std::uint32_t count, std::uint32_t samples, std::uint32_t first, std::uint32_t alpha,
                       std::uint8_t* rgb) {
    using Kind = TiffColors::Kind;
    const std::uint32_t largest = (1U << colours_.bits) - 1;
    const auto divided = [largest](std::uint32_t value, std::uint32_t by) {
        return by == 0 ? 0 : std::min(largest, static_cast<std::uint32_t>(std::uint64_t{value} * largest / by));
    };
    const std::uint16_t* pixel = values_.data();
    std::array<std::uint8_t, 4> numbers{};
    for (std::uint32_t i = 0; i < count; ++i, pixel += samples, rgb += 3) {
        if (colours_.kind == Kind::Palette) {
            std::memcpy(rgb, colours_.palette.data() + std::size_t{pixel[0]} * 3, 3);
            continue;
        }
        for (std::uint32_t c = 0; c < colours_.colour_samples(); ++c) {
            std::uint32_t value = pixel[first + c];
            if (colours_.bits == 16) largest_ = std::max(largest_, pixel[first + c]);
            if (colours_.multiplied_by) value = divided(value, pixel[alpha]);
            if (colours_.kind == Kind::GrayInverted) value = largest - value;
            numbers[c] = in_8_bits(value, colours_.bits);
        }
        if (colours_.kind == Kind::Cmyk)
            rgb_of_inks(numbers, rgb);
        else if (colours_.kind == Kind::Rgb)
            std::memcpy(rgb, numbers.data(), 3);
        else
            std::memset(rgb, numbers[0], 3);
    }
}

TiffColors read_tiff_layout(const TiffHandle& handle, TiffPart part) {
    TIFF* const tiff = handle.get();
    const char* const fix = part == TiffPart::Numbers ? kConvertNumbers : kConvertTiff;
    if (tiff_field<std::uint32_t>(tiff, TIFFTAG_IMAGEDEPTH, 1) > 1)
        refuse_layout("several layers (a volume)", "flat pictures are read", fix);
    check_compression(tiff, fix);
    const auto compression = tiff_field<std::uint16_t>(tiff, TIFFTAG_COMPRESSION, COMPRESSION_NONE);
    const auto form = tiff_field<std::uint16_t>(tiff, TIFFTAG_SAMPLEFORMAT, SAMPLEFORMAT_UINT);
    TiffColors colours{.kind = TiffColors::Kind::Gray,
                       .bits = tiff_field<std::uint16_t>(tiff, TIFFTAG_BITSPERSAMPLE, 1),
                       .samples = tiff_field<std::uint16_t>(tiff, TIFFTAG_SAMPLESPERPIXEL, 1),
                       .multiplied_by = std::nullopt,
                       .palette = {},
                       .alpha = std::nullopt,
                       .first = 0,
                       .form = form};
    const std::string bits = std::to_string(colours.bits);
    if (part == TiffPart::Numbers) {
        check_numbers(tiff, form, colours.bits);
        colours.kind = TiffColors::Kind::Numbers;
        return colours;
    }
    constexpr const char* kNumbersRead = "whole numbers of 1, 2, 4, 8 and 16 bits are read";
    if (form == SAMPLEFORMAT_IEEEFP) refuse_layout("floating-point numbers of " + bits + " bits", kNumbersRead);
    if (form != SAMPLEFORMAT_UINT && form != SAMPLEFORMAT_VOID)
        refuse_layout(form == SAMPLEFORMAT_INT ? "signed numbers of " + bits + " bits" : std::string("complex numbers"),
                      kNumbersRead);
    constexpr std::array<unsigned, 5> kBits{1, 2, 4, 8, 16};
    if (std::ranges::find(kBits, colours.bits) == kBits.end()) refuse_layout(bits + " bits per channel", kNumbersRead);
    constexpr const char* kColoursRead = "gray, palettes, RGB, CMYK, and JPEG's YCbCr are read";
    std::uint16_t photometric = 0;
    if (libtiff().get_field(tiff, TIFFTAG_PHOTOMETRIC, &photometric) != 1)
        throw UnreadableItem("damaged TIFF: it lacks PhotometricInterpretation, which states its colours");
    if (photometric == PHOTOMETRIC_YCBCR && compression == COMPRESSION_JPEG) {
        convert_jpeg_colours(tiff);
        photometric = PHOTOMETRIC_RGB;
    }
    if (photometric == PHOTOMETRIC_MINISWHITE)
        colours.kind = TiffColors::Kind::GrayInverted;
    else if (photometric == PHOTOMETRIC_PALETTE)
        colours.kind = TiffColors::Kind::Palette;
    else if (photometric == PHOTOMETRIC_RGB)
        colours.kind = TiffColors::Kind::Rgb;
    else if (photometric == PHOTOMETRIC_SEPARATED &&
             tiff_field<std::uint16_t>(tiff, TIFFTAG_INKSET, INKSET_CMYK) == INKSET_CMYK)
        colours.kind = TiffColors::Kind::Cmyk;
    else if (photometric != PHOTOMETRIC_MINISBLACK)
        refuse_layout(name_of_colours(photometric), kColoursRead);
    std::uint16_t extra = 0;
    std::uint16_t* kinds = nullptr;
    if (libtiff().get_field_defaulted(tiff, TIFFTAG_EXTRASAMPLES, &extra, &kinds) != 1) extra = 0;
    const std::uint32_t wanted = colours.colour_samples();
    // Some writers do not declare a fourth channel.
    const bool too_many = wanted == 1 && colours.samples > 2;
    if (colours.samples < wanted || too_many || colours.samples > kMostSamples)
        refuse_layout(std::to_string(colours.samples) + " channels of " +
                          (wanted == 1   ? "gray or a palette"
                           : wanted == 3 ? "RGB"
                                         : "CMYK"),
                      "gray with at most one alpha channel, and RGB and CMYK with up to 64 channels, of which extra "
                      "ones are dropped, are read");
    for (std::uint32_t i = 0; i < extra && wanted + i < colours.samples && !colours.alpha; ++i)
        if (kinds[i] == EXTRASAMPLE_ASSOCALPHA || kinds[i] == EXTRASAMPLE_UNASSALPHA) colours.alpha = wanted + i;
    for (std::uint32_t i = 0; i < extra && wanted + i < colours.samples; ++i)
        if (kinds[i] == EXTRASAMPLE_ASSOCALPHA && colours.kind != TiffColors::Kind::Palette &&
            colours.kind != TiffColors::Kind::Cmyk) {
            colours.multiplied_by = wanted + i;
            break;
        }
    if (colours.kind != TiffColors::Kind::Palette) return colours;
    if (colours.bits == 16) refuse_layout("a palette of 16 bits", "palettes of up to 8 bits are read");
    colours.palette = tiff_palette(handle, colours.bits);
    return colours;
}

}  // namespace offramp
