// A decoded file does not depend on files decoded before or beside it.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <tiff.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "common/app/images/image_decode.hpp"
#include "common/app/images/picture_parts.hpp"
#include "common/app/images/unreadable_item.hpp"
#include "tests/unit/images/jpeg_files.hpp"
#include "tests/unit/images/more_files.hpp"
#include "tests/unit/images/picture_files.hpp"
#include "tests/unit/images/tiff_files.hpp"

namespace offramp {
namespace {

constexpr ImageSize kOrderSize{45, 33};

// Good files of every kind, and truncated ones, with damaged bytes and with bad headers.
std::map<std::string, std::string> good_files() {
    const Rgb smooth = gradient(kOrderSize), rough = noise(kOrderSize);
    const PngLayout interlaced{.color_type = 2, .interlaced = true};
    TiffPage page = tiff_page(kOrderSize, smooth);
    page.compression = COMPRESSION_LZW;
    TiffPage tiles = page;
    tiles.tile = {16, 16};
    TiffPage jpeg_tiff = page;
    jpeg_tiff.compression = COMPRESSION_JPEG;
    jpeg_tiff.strip_rows = 16;
    GifFile on_canvas = gif_of(kOrderSize);
    on_canvas.canvas = {70, 20};
    on_canvas.transparent = 9;
    const std::string bmp_rows(std::size_t{136} * kOrderSize.height, '\x5a'), bmp_runs("\3\7\0\0\2\5\0\1", 8);
    return {{"coarse.jpg", encode_jpeg(kOrderSize, smooth, JpegTables{.quality = 10})},
            {"fine.jpg", encode_jpeg(kOrderSize, rough, JpegTables{.quality = 98})},
            {"own-codes.jpg", encode_jpeg(kOrderSize, rough, JpegTables{.quality = 60, .own_codes = true})},
            {"restarts.jpg", encode_jpeg(kOrderSize, rough, JpegTables{.restart_blocks = 2})},
            {"gray.jpg", encode_jpeg(kOrderSize, smooth, JpegColors::Gray)},
            {"inks.jpg", encode_jpeg(kOrderSize, smooth, JpegColors::Cmyk)},
            {"scans.jpg", encode_jpeg(kOrderSize, rough, JpegColors::Color, JpegScans::Progressive)},
            {"turned.jpg", with_exif(encode_jpeg(kOrderSize, smooth, JpegTables{}), exif_of(6))},
            {"large.jpg", encode_jpeg({360, 270}, noise({360, 270}), JpegTables{})},
            {"smooth.png", encode_png(kOrderSize, smooth)},
            {"interlaced.png", encode_png(kOrderSize, interlaced, rough)},
            {"smooth.webp", encode_webp(kOrderSize, smooth)},
            {"rough.webp", encode_webp(kOrderSize, rough)},
            {"rows.gif", encode_gif(gif_of(kOrderSize))},
            {"canvas.gif", encode_gif(on_canvas)},
            {"animated.webp",
             animated_webp({60, 50}, {{{.left = 4, .top = 6, .size = kOrderSize}, encode_webp(kOrderSize, rough)}})},
            {"rows.bmp", encode_bmp({.size = kOrderSize, .masks = {}, .palette = {}, .rows = bmp_rows})},
            {"runs.bmp", encode_bmp({.size = {4, 4},
                                     .bits = 8,
                                     .compression = 1,
                                     .masks = {},
                                     .palette = bmp_rows.substr(0, 1024),
                                     .rows = bmp_runs})},
            {"strips.tif", encode_tiff({page})},
            {"tiles.tif", encode_tiff({tiles})},
            {"jpeg.tif", encode_tiff({jpeg_tiff})}};
}

std::vector<std::string> all_files() {
    std::vector<std::string> files;
    for (const auto& [name, file] : good_files()) {
        files.push_back(file);
        for (const std::size_t part : {3U, 5U, 9U}) {
            files.push_back(file.substr(0, file.size() * part / 10));
            std::string damaged = file;
            for (std::size_t i = 0; i < 4; ++i) damaged[file.size() * part / 10 + i] = static_cast<char>(0xa5U ^ i);
            files.push_back(damaged);
        }
    }
    const std::string jpeg = encode_jpeg(kOrderSize, gradient(kOrderSize), JpegTables{.quality = 75});
    for (const auto& [name, file] : with_bad_headers(jpeg)) files.push_back(file);
    for (const unsigned char tables : {static_cast<unsigned char>(0xdb), static_cast<unsigned char>(0xc4)}) {
        files.push_back(without_segments(jpeg, tables));
        files.push_back(
            without_segments(encode_jpeg(kOrderSize, noise(kOrderSize), JpegTables{.own_codes = true}), tables));
    }
    return files;
}

template <class Read>
std::string outcome_of(const Read& read) {
    Rgb rgb;
    try {
        read(rgb);
    } catch (const UnreadableItem& refused) {
        return refused.what();
    }
    return std::string(rgb.begin(), rgb.end());
}

// All results of a picture: resized at a scale, in full, and by rows; pixels or the reason.
std::string outcomes(ImageDecoder& decoder, const std::string& path) {
    const PictureFrame frame({20, 16});
    return outcome_of([&](Rgb& rgb) {
               rgb.resize(frame.size.rgb_bytes());
               decoder.decode_file(path, frame, std::as_writable_bytes(std::span(rgb)));
           }) +
           "\n" + outcome_of([&](Rgb& rgb) { decoder.decode_file_in_full(path, rgb); }) + "\n" +
           outcome_of([&](Rgb& rgb) {
               const auto rows = open_picture_rows(path);
               rgb.resize(rows->size().rgb_bytes());
               rows->read(rows->size().height, rgb.data());
           });
}

// The same in a process that has decoded no other file.
std::string outcomes_alone(const std::string& path, const std::string& result) {
    const pid_t child = ::fork();
    if (child == 0) {
        ImageDecoder decoder;
        const std::string found = outcomes(decoder, path);
        std::FILE* const file = std::fopen(result.c_str(), "wb");
        const bool written = file != nullptr && std::fwrite(found.data(), 1, found.size(), file) == found.size() &&
                             std::fclose(file) == 0;
        ::_exit(written ? 0 : 1);
    }
    int status = 1;
    if (child < 0 || ::waitpid(child, &status, 0) != child || status != 0) return "no process";
    std::ifstream file(result, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

TEST(PictureOrder, DoesNotDependOnEarlierDecodes) {
    constexpr unsigned kThreads = 16, kPictures = 250;
    const TempFolder folder;
    std::vector<std::string> paths, wanted;
    for (const std::string& file : all_files()) {
        paths.push_back(folder.write(std::to_string(paths.size()), file));
        wanted.push_back(outcomes_alone(paths.back(), folder / "result"));
        ASSERT_NE(wanted.back(), "no process");
    }
    EXPECT_GT(std::ranges::count_if(wanted, [](const auto& all) { return all.size() > 6000; }), 16) << "pictures";
    EXPECT_GT(std::ranges::count_if(wanted, [](const auto& all) { return all.size() < 600; }), 60) << "reasons";
    std::vector<std::string> differing(kThreads);
    std::vector<std::thread> threads;
    for (unsigned thread = 0; thread < kThreads; ++thread)
        threads.emplace_back([&, thread] {
            std::mt19937 random(thread);
            ImageDecoder decoder;
            for (unsigned i = 0; i < kPictures; ++i) {
                const std::size_t picture = random() % paths.size();
                if (outcomes(decoder, paths[picture]) != wanted[picture])
                    differing[thread] += " " + std::to_string(picture);
            }
        });
    for (std::thread& thread : threads) thread.join();
    for (unsigned thread = 0; thread < kThreads; ++thread)
        EXPECT_EQ(differing[thread], "") << "files of thread " << thread;
}

}  // namespace
}  // namespace offramp
