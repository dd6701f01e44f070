#include <png.h>
#include <zlib.h>

#include <algorithm>
#include <CLI/CLI.hpp>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/base/error.hpp"
#include "consumer/processors/pictures/png_encoder.hpp"

// offramp-png-bench FILE...: PNG files as processors write them, against the same filtered rows compressed by zlib and
// nothing else, at each level, by turns on one core. CPU seconds; the best of some rounds for a rate, the
// median of rounds for a ratio; one line of JSON:
//   {"processor", "files", "raw_bytes", "levels": [{"level", "megabytes_per_second", "over_zlib", "bytes",
//   "bytes_over_zlib"}]} offramp-png-bench --rounds 15 masks/*.png
namespace offramp {
namespace {

struct Picture {
    PngImage image;
    std::size_t row_bytes = 0;
    std::vector<std::uint8_t> pixels, filtered;
    PngPalette palette{};
};

void read(const std::string& file, Picture& picture) {
    png_image header{.version = PNG_IMAGE_VERSION};
    if (png_image_begin_read_from_file(&header, file.c_str()) == 0)
        throw Error(ErrorKind::BadInput, file + ": " + header.message, "Give PNG files");
    const bool has_palette = (header.format & PNG_FORMAT_FLAG_COLORMAP) != 0;
    const bool has_alpha = (header.format & PNG_FORMAT_FLAG_ALPHA) != 0;
    header.format = has_palette ? PNG_FORMAT_RGB_COLORMAP : has_alpha ? PNG_FORMAT_RGBA : PNG_FORMAT_RGB;
    picture.pixels.resize(PNG_IMAGE_SIZE(header));
    if (png_image_finish_read(&header, nullptr, picture.pixels.data(), 0, picture.palette.data()) == 0)
        throw Error(ErrorKind::BadInput, file + ": " + header.message, "Give PNG files");
    picture.image = {.pixels = picture.pixels,
                     .width = header.width,
                     .height = header.height,
                     .kind = has_palette ? PngPixels::Palette
                             : has_alpha ? PngPixels::Rgba
                                         : PngPixels::Rgb,
                     .palette = has_palette ? &picture.palette : nullptr};
    picture.row_bytes = picture.pixels.size() / header.height;
    picture.filtered.resize(picture.pixels.size() + header.height);
}

// Of a file, beside its compressed rows: signature, IHDR, PLTE, one IDAT's own, IEND.
std::size_t container_bytes(const Picture& picture) {
    return 8 + 25 + (picture.image.palette != nullptr ? 12 + 768 : 0) + 12 + 12;
}

double cpu_seconds() {
    timespec now{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

// As libpng filters rows for zlib, each behind a byte that names it: 0, as they are, for a palette; 1, less the pixel
// to the left, for others.
void filter_rows(Picture& picture) {
    const bool is_palette = picture.image.palette != nullptr;
    const std::size_t pixel_bytes = picture.row_bytes / picture.image.width;
    std::uint8_t* to = picture.filtered.data();
    for (std::size_t at = 0; at < picture.pixels.size(); at += picture.row_bytes, to += picture.row_bytes + 1) {
        const std::uint8_t* row = picture.pixels.data() + at;
        to[0] = is_palette ? 0 : 1;
        std::memcpy(to + 1, row, picture.row_bytes);
        if (is_palette) continue;
        for (std::size_t i = pixel_bytes; i < picture.row_bytes; ++i)
            to[1 + i] = static_cast<std::uint8_t>(row[i] - row[i - pixel_bytes]);
    }
}

std::size_t by_zlib(Picture& picture, int level, std::vector<Bytef>& room) {
    filter_rows(picture);
    room.resize(std::max(room.size(), static_cast<std::size_t>(compressBound(picture.filtered.size()))));
    uLongf size = room.size();
    expect(compress2(room.data(), &size, picture.filtered.data(), picture.filtered.size(), level) == Z_OK,
           "zlib has the room that it asks for");
    return size + container_bytes(picture);
}

// What one way takes for all pictures, round by round.
struct Cost {
    std::vector<double> seconds;
    std::size_t bytes = 0;

    void see(std::vector<Picture>& pictures, const auto& encode) {
        const double began = cpu_seconds();
        bytes = 0;
        for (Picture& picture : pictures) bytes += encode(picture);
        seconds.push_back(cpu_seconds() - began);
    }
};

// Of neighbouring rounds, so that what else the machine does counts for both.
double median_ratio(const Cost& one, const Cost& other) {
    std::vector<double> ratios;
    for (std::size_t i = 0; i < one.seconds.size(); ++i) ratios.push_back(one.seconds[i] / other.seconds[i]);
    std::ranges::sort(ratios);
    return ratios[ratios.size() / 2];
}

std::string processor() {
    std::ifstream file("/proc/cpuinfo");
    for (std::string line; std::getline(file, line);)
        if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
    return "unknown";
}

nlohmann::json measure(const std::vector<std::string>& files, int rounds) {
    std::vector<Picture> pictures(files.size());
    std::size_t raw_bytes = 0;
    for (std::size_t i = 0; i < files.size(); ++i) {
        read(files[i], pictures[i]);
        raw_bytes += pictures[i].pixels.size();
    }
    auto levels = nlohmann::json::array();
    std::vector<Bytef> room;
    for (int level = 0; level <= 9; ++level) {
        PngEncoder encoder(level);
        Cost ours, zlib;
        for (int round = 0; round < rounds; ++round) {
            ours.see(pictures, [&](Picture& picture) { return encoder.encode(picture.image, [] {}).size(); });
            zlib.see(pictures, [&](Picture& picture) { return by_zlib(picture, level, room); });
        }
        levels.push_back(
            {{"level", level},
             {"megabytes_per_second", static_cast<double>(raw_bytes) / 1e6 / std::ranges::min(ours.seconds)},
             {"over_zlib", median_ratio(zlib, ours)},
             {"bytes", ours.bytes},
             {"bytes_over_zlib", static_cast<double>(ours.bytes) / static_cast<double>(zlib.bytes)}});
    }
    return {{"processor", processor()}, {"files", files.size()}, {"raw_bytes", raw_bytes}, {"levels", levels}};
}

}  // namespace
}  // namespace offramp

int main(int argc, char** argv) {
    std::vector<std::string> files;
    int rounds = 15;
    CLI::App app("Measures the PNG files that processors write");
    app.add_option("files", files)->required();
    app.add_option("--rounds", rounds)->capture_default_str()->check(CLI::Range(1, 1000));
    CLI11_PARSE(app, argc, argv);
    try {
        std::cout << offramp::measure(files, rounds).dump() << '\n';
    } catch (const std::exception& problem) {
        std::cerr << problem.what() << '\n';
        return 66;
    }
    return 0;
}
