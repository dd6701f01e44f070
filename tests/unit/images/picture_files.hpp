#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "common/app/images/geometry.hpp"

namespace offramp {

// A folder of its own for one test, removed with everything in it.
class TempFolder {
  public:
    TempFolder();
    ~TempFolder();
    TempFolder(const TempFolder&) = delete;
    TempFolder& operator=(const TempFolder&) = delete;

    const std::filesystem::path& path() const { return path_; }
    std::string operator/(const std::string& name) const { return (path_ / name).string(); }
    // Writes a file, with the folders that it needs.
    std::string write(const std::string& name, const std::string& bytes) const;

  private:
    std::filesystem::path path_;
};

using Rgb = std::vector<std::uint8_t>;

// A picture of smooth gradients, that JPEG keeps nearly as it is, different for each seed.
Rgb gradient(ImageSize size, unsigned seed = 0);

// A picture in which neighbours have nothing to do with each other, so that a pixel's shift shows. Always the same.
Rgb noise(ImageSize size);

enum class JpegColors { Color, Gray, Cmyk };
enum class JpegScans { Baseline, Progressive };
std::string encode_jpeg(ImageSize size, const Rgb& pixels, JpegColors colors = JpegColors::Color,
                        JpegScans scans = JpegScans::Baseline);
// As libwebp writes it, losslessly; with an alpha channel, or with EXIF data around it.
std::string encode_webp(ImageSize size, const Rgb& pixels);
std::string encode_webp_rgba(ImageSize size, const std::vector<std::uint8_t>& rgba);
std::string webp_with_exif(const std::string& webp, ImageSize size, const std::string& exif);
// EXIF data that holds nothing but an orientation, in either byte order; and a JPEG file with such data in front.
enum class TiffOrder { LittleEndian, BigEndian };
std::string exif_of(unsigned orientation, TiffOrder order = TiffOrder::LittleEndian);
std::string with_exif(const std::string& jpeg, const std::string& exif);
std::string encode_png(ImageSize size, const Rgb& pixels);
// Any PNG: rows as they lie in the file. `palette` (RGB triples) and `transparency` may be empty.
struct PngLayout {
    int color_type = 0;
    int bit_depth = 8;
    bool interlaced = false;
    std::vector<std::uint8_t> palette, transparency;
    std::vector<std::uint8_t> profile{};  // ICC
};
// A file with one more chunk, in front of the pixels or behind them.
enum class PngPlace { BeforePixels, BehindPixels };
std::string png_with_chunk(const std::string& png, PngPlace place, const std::string& kind, const std::string& data);
// An ICC profile of RGB that holds nothing, of so many bytes; and files that have it.
std::string rgb_profile(std::size_t bytes);
std::string jpeg_with_profile(const std::string& jpeg, const std::string& profile, std::size_t most_in_segment);
std::string webp_with_profile(const std::string& webp, ImageSize size, const std::string& profile);
std::string encode_png(ImageSize size, const PngLayout& layout, const std::vector<std::uint8_t>& rows);
// A correct header and nothing else that counts: what a decompression bomb begins with.
std::string png_header(ImageSize size);

}  // namespace offramp
