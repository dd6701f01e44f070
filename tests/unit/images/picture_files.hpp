#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "common/app/images/geometry.hpp"

namespace offramp {

// A folder for one test, removed with its contents.
class TempFolder {
  public:
    TempFolder();
    ~TempFolder();
    TempFolder(const TempFolder&) = delete;
    TempFolder& operator=(const TempFolder&) = delete;

    const std::filesystem::path& path() const { return path_; }
    std::string operator/(const std::string& name) const { return (path_ / name).string(); }
    // Writes a file, and creates its folders.
    std::string write(const std::string& name, const std::string& bytes) const;

  private:
    std::filesystem::path path_;
};

using Rgb = std::vector<std::uint8_t>;

// A picture of smooth gradients, which JPEG nearly preserves, different for each seed.
Rgb gradient(ImageSize size, unsigned seed = 0);

// A picture of independent pixels, so that a shift shows. Always the same.
Rgb noise(ImageSize size);

enum class JpegColors { Color, Gray, Cmyk };
enum class JpegScans { Baseline, Progressive };
std::string encode_jpeg(ImageSize size, const Rgb& pixels, JpegColors colors = JpegColors::Color,
                        JpegScans scans = JpegScans::Baseline);
// A lossless WebP by libwebp; with an alpha channel, or with EXIF data around it.
std::string encode_webp(ImageSize size, const Rgb& pixels);
std::string encode_webp_rgba(ImageSize size, const std::vector<std::uint8_t>& rgba);
std::string webp_with_exif(const std::string& webp, ImageSize size, const std::string& exif);
// EXIF data of only an orientation, in either byte order; and a JPEG file that begins with it.
enum class TiffOrder { LittleEndian, BigEndian };
std::string exif_of(unsigned orientation, TiffOrder order = TiffOrder::LittleEndian);
std::string with_exif(const std::string& jpeg, const std::string& exif);
std::string encode_png(ImageSize size, const Rgb& pixels);
// Any PNG: rows as stored. `palette` (RGB triples) and `transparency` may be empty.
struct PngLayout {
    int color_type = 0;
    int bit_depth = 8;
    bool interlaced = false;
    std::vector<std::uint8_t> palette, transparency;
    std::vector<std::uint8_t> profile{};  // ICC
};
// A file with one more chunk, before or after the pixels.
enum class PngPlace { BeforePixels, BehindPixels };
std::string png_with_chunk(const std::string& png, PngPlace place, const std::string& kind, const std::string& data);
// An RGB ICC profile of this many bytes without contents; and files that contain it.
std::string rgb_profile(std::size_t bytes);
std::string jpeg_with_profile(const std::string& jpeg, const std::string& profile, std::size_t most_in_segment);
std::string webp_with_profile(const std::string& webp, ImageSize size, const std::string& profile);
std::string encode_png(ImageSize size, const PngLayout& layout, const std::vector<std::uint8_t>& rows);
// A correct header without a picture, like the start of a decompression bomb.
std::string png_header(ImageSize size);

}  // namespace offramp
