#include "tests/unit/images/picture_files.hpp"

#include <png.h>
#include <turbojpeg.h>
#include <webp/encode.h>

#include <cstdlib>
#include <fstream>
#include <stdexcept>

namespace offramp {

TempFolder::TempFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "offramp-test-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path_ = name;
    std::filesystem::permissions(path_, std::filesystem::perms(0755));
}

TempFolder::~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
}

std::string TempFolder::write(const std::string& name, const std::string& bytes) const {
    const std::filesystem::path file = path_ / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << bytes;
    return file.string();
}

Rgb gradient(ImageSize size, unsigned seed) {
    Rgb pixels;
    pixels.reserve(size.rgb_bytes());
    for (std::uint32_t y = 0; y < size.height; ++y)
        for (std::uint32_t x = 0; x < size.width; ++x) {
            pixels.push_back(static_cast<std::uint8_t>((x * 255 / size.width + seed * 37) % 256));
            pixels.push_back(static_cast<std::uint8_t>(y * 255 / size.height));
            pixels.push_back(static_cast<std::uint8_t>((seed * 61) % 256));
        }
    return pixels;
}

Rgb noise(ImageSize size) {
    Rgb pixels(size.rgb_bytes());
    std::uint32_t state = 1;
    for (std::uint8_t& value : pixels) {
        state = (state * 1103515245U + 12345U) & 0x7fffffffU;
        value = static_cast<std::uint8_t>(state >> 16);
    }
    return pixels;
}

std::string encode_jpeg(ImageSize size, const Rgb& pixels, JpegColors colors, JpegScans scans) {
    const tjhandle encoder = tjInitCompress();
    std::vector<std::uint8_t> cmyk;
    const std::uint8_t* from = pixels.data();
    int format = TJPF_RGB;
    if (colors == JpegColors::Cmyk) {
        for (std::size_t i = 0; i < size.pixels(); ++i)
            for (const std::uint8_t value : {pixels[3 * i], pixels[3 * i + 1], pixels[3 * i + 2], std::uint8_t{255}})
                cmyk.push_back(value);
        from = cmyk.data();
        format = TJPF_CMYK;
    }
    unsigned char* bytes = nullptr;
    unsigned long count = 0;
    const int failed = tjCompress2(encoder, from, static_cast<int>(size.width), 0, static_cast<int>(size.height),
                                   format, &bytes, &count, colors == JpegColors::Gray ? TJSAMP_GRAY : TJSAMP_444, 95,
                                   scans == JpegScans::Progressive ? TJFLAG_PROGRESSIVE : 0);
    if (failed != 0) throw std::runtime_error(tjGetErrorStr2(encoder));
    std::string file(reinterpret_cast<char*>(bytes), count);
    tjFree(bytes);
    tjDestroy(encoder);
    return file;
}

std::string encode_webp(ImageSize size, const Rgb& pixels) {
    std::uint8_t* bytes = nullptr;
    const std::size_t count =
        WebPEncodeLosslessRGB(pixels.data(), static_cast<int>(size.width), static_cast<int>(size.height),
                              static_cast<int>(size.width * 3), &bytes);
    std::string file(reinterpret_cast<char*>(bytes), count);
    WebPFree(bytes);
    return file;
}

std::string encode_webp_rgba(ImageSize size, const std::vector<std::uint8_t>& rgba) {
    WebPConfig config;
    WebPConfigInit(&config);
    config.lossless = 1;
    config.exact = 1;  // keeps the colours of invisible pixels
    WebPPicture picture;
    WebPPictureInit(&picture);
    picture.use_argb = 1;
    picture.width = static_cast<int>(size.width);
    picture.height = static_cast<int>(size.height);
    WebPMemoryWriter writer;
    WebPMemoryWriterInit(&writer);
    picture.writer = WebPMemoryWrite;
    picture.custom_ptr = &writer;
    WebPPictureImportRGBA(&picture, rgba.data(), picture.width * 4);
    if (WebPEncode(&config, &picture) == 0) throw std::runtime_error("no WebP");
    std::string file(reinterpret_cast<char*>(writer.mem), writer.size);
    WebPMemoryWriterClear(&writer);
    WebPPictureFree(&picture);
    return file;
}

namespace {

std::string little_endian(std::size_t value, unsigned bytes) {
    std::string text;
    for (unsigned i = 0; i < bytes; ++i) text += static_cast<char>((value >> (8 * i)) & 0xff);
    return text;
}

std::string big_endian(std::size_t value) {
    std::string text = little_endian(value, 4);
    return {text.rbegin(), text.rend()};
}

// A chunk before those of the picture, or after them.
std::string webp_with(const std::string& webp, ImageSize size, char flag, const std::string& kind,
                      const std::string& data, bool is_in_front) {
    const std::string front = "WEBPVP8X" + little_endian(10, 4) + std::string{flag, '\0', '\0', '\0'} +
                              little_endian(size.width - 1, 3) + little_endian(size.height - 1, 3);
    const std::string chunk =
        kind + little_endian(data.size(), 4) + data + (data.size() % 2 == 1 ? std::string(1, '\0') : "");
    const std::string all = front + (is_in_front ? chunk : "") + webp.substr(12) + (is_in_front ? "" : chunk);
    return "RIFF" + little_endian(all.size(), 4) + all;
}

}  // namespace

std::string webp_with_exif(const std::string& webp, ImageSize size, const std::string& exif) {
    return webp_with(webp, size, '\x08', "EXIF", exif, false);
}

std::string webp_with_profile(const std::string& webp, ImageSize size, const std::string& profile) {
    return webp_with(webp, size, '\x20', "ICCP", profile, true);
}

std::string rgb_profile(std::size_t bytes) {
    std::string profile(bytes, '\0');
    const auto put = [&profile](std::size_t at, const std::string& text) { profile.replace(at, text.size(), text); };
    put(0, big_endian(bytes));
    put(8, big_endian(0x02100000));
    put(12, "mntrRGB XYZ ");
    put(36, "acsp");
    put(68, big_endian(0xf6d6) + big_endian(0x10000) + big_endian(0xd32d));  // D50
    for (std::size_t at = 132; at < bytes; ++at) profile[at] = static_cast<char>(at * 7 + at / 251);
    return profile;
}

std::string jpeg_with_profile(const std::string& jpeg, const std::string& profile, std::size_t most_in_segment) {
    std::string segments;
    const std::size_t count = (profile.size() + most_in_segment - 1) / most_in_segment;
    for (std::size_t i = 0; i < count; ++i) {
        const std::string part = profile.substr(i * most_in_segment, most_in_segment);
        const std::size_t length = part.size() + 16;
        segments += std::string("\xff\xe2") + static_cast<char>(length >> 8) + static_cast<char>(length & 0xff) +
                    std::string("ICC_PROFILE\0", 12) + static_cast<char>(i + 1) + static_cast<char>(count) + part;
    }
    return jpeg.substr(0, 2) + segments + jpeg.substr(2);
}

std::string png_with_chunk(const std::string& png, PngPlace place, const std::string& kind, const std::string& data) {
    std::uint32_t sum = 0xffffffffU;
    for (const char c : kind + data) {
        sum ^= static_cast<std::uint8_t>(c);
        for (int bit = 0; bit < 8; ++bit) sum = (sum >> 1U) ^ ((sum & 1U) != 0 ? 0xedb88320U : 0U);
    }
    const std::string chunk = big_endian(data.size()) + kind + data + big_endian(~sum & 0xffffffffU);
    const std::size_t at = place == PngPlace::BeforePixels ? 33 : png.size() - 12;
    return png.substr(0, at) + chunk + png.substr(at);
}

std::string exif_of(unsigned orientation, TiffOrder order) {
    std::string tiff = order == TiffOrder::BigEndian ? "MM" : "II";
    const auto number = [&](unsigned value, unsigned bytes) {
        for (unsigned i = 0; i < bytes; ++i)
            tiff += static_cast<char>(value >> (8 * (order == TiffOrder::BigEndian ? bytes - 1 - i : i)));
    };
    number(42, 2);
    number(8, 4);  // the offset of the directory
    number(2, 2);  // its entries: a camera's maker ahead of the orientation, as tags are sorted
    for (const unsigned field : {271U, 2U}) number(field, 2);
    number(4, 4);
    tiff += std::string("us\0\0", 4);
    for (const unsigned field : {274U, 3U}) number(field, 2);
    number(1, 4);
    number(orientation, 2);
    number(0, 2);
    number(0, 4);  // no further directory
    return tiff;
}

std::string with_exif(const std::string& jpeg, const std::string& exif) {
    const std::size_t length = exif.size() + 8;
    std::string segment = "\xff\xe1";
    segment += static_cast<char>(length >> 8);
    segment += static_cast<char>(length & 0xff);
    return jpeg.substr(0, 2) + segment + std::string("Exif\0\0", 6) + exif + jpeg.substr(2);
}

std::string encode_png(ImageSize size, const PngLayout& layout, const std::vector<std::uint8_t>& rows) {
    std::string file;
    png_structp png = png_create_write_struct(
        PNG_LIBPNG_VER_STRING, nullptr, [](png_structp, png_const_charp text) { throw std::runtime_error(text); },
        nullptr);
    png_infop info = png_create_info_struct(png);
    png_set_write_fn(
        png, &file,
        [](png_structp writer, png_bytep bytes, std::size_t count) {
            static_cast<std::string*>(png_get_io_ptr(writer))->append(reinterpret_cast<char*>(bytes), count);
        },
        nullptr);
    png_set_IHDR(png, info, size.width, size.height, layout.bit_depth, layout.color_type,
                 layout.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
                 PNG_FILTER_TYPE_DEFAULT);
    if (!layout.palette.empty()) {
        std::vector<png_color> colors;
        for (std::size_t i = 0; i + 2 < layout.palette.size(); i += 3)
            colors.push_back({layout.palette[i], layout.palette[i + 1], layout.palette[i + 2]});
        png_set_PLTE(png, info, colors.data(), static_cast<int>(colors.size()));
    }
    if (!layout.profile.empty())
        png_set_iCCP(png, info, "of a test", PNG_COMPRESSION_TYPE_BASE, layout.profile.data(),
                     static_cast<png_uint_32>(layout.profile.size()));
    if (!layout.transparency.empty() && (layout.color_type & PNG_COLOR_MASK_PALETTE) == 0) {
        png_color_16 colour{};  // one value for gray, three for colours
        colour.gray = colour.red = layout.transparency.front();
        colour.green = layout.transparency[layout.transparency.size() / 2];
        colour.blue = layout.transparency.back();
        png_set_tRNS(png, info, nullptr, 0, &colour);
    } else if (!layout.transparency.empty())
        png_set_tRNS(png, info, layout.transparency.data(), static_cast<int>(layout.transparency.size()), nullptr);
    std::vector<std::uint8_t> lines = rows;
    std::vector<png_bytep> starts;
    for (std::uint32_t y = 0; y < size.height; ++y) starts.push_back(lines.data() + y * (lines.size() / size.height));
    png_write_info(png, info);
    png_write_image(png, starts.data());
    png_write_end(png, nullptr);
    png_destroy_write_struct(&png, &info);
    return file;
}

std::string encode_png(ImageSize size, const Rgb& pixels) {
    return encode_png(size, PngLayout{.color_type = PNG_COLOR_TYPE_RGB}, pixels);
}

std::string png_header(ImageSize size) {
    std::string file = encode_png({1, 1}, {9, 9, 9});
    for (int byte = 0; byte < 4; ++byte) {
        file[16 + static_cast<std::size_t>(byte)] = static_cast<char>(size.width >> (24 - 8 * byte));
        file[20 + static_cast<std::size_t>(byte)] = static_cast<char>(size.height >> (24 - 8 * byte));
    }
    return file;
}

}  // namespace offramp
