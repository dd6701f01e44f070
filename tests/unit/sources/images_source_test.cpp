#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tiff.h>

#include <array>
#include <thread>
#include <vector>

#include "common/app/images/geometry.hpp"
#include "common/app/images/resize.hpp"
#include "common/base/error.hpp"
#include "producer/runner/sources/batch_source.hpp"
#include "producer/runner/sources/source_items.hpp"
#include "tests/support/error_of.hpp"
#include "tests/unit/images/tiff_files.hpp"
#include "tests/unit/sources/making.hpp"

namespace offramp {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr ImageSize kSize{40, 24};

std::unique_ptr<BatchSource> make(const RunConfig& config, TensorSpec input, bool takes_images = true) {
    return test::make_source("images", config, std::move(input), takes_images);
}

TensorSpec picture_input() { return test::picture_input(kSize); }

struct ImagesSource : ::testing::Test {
    ImagesSource() {
        config.input = folder.path();
        for (unsigned i = 0; i < 12; ++i)
            folder.write("sub/" + std::string(1, static_cast<char>('a' + i)) + ".png",
                         encode_png(kSize, gradient(kSize, i)));
    }

    Rgb row(BatchSource& source, std::uint64_t item) { return test::row_of(source, item, kSize); }

    TempFolder folder;
    RunConfig config;
};

TEST_F(ImagesSource, GivesPixelsInTheOrderOfNames) {
    const auto source = make(config, picture_input());
    ASSERT_EQ(source->items(), 12U);
    EXPECT_EQ(source->row_kind(), RowKind::Pixels);
    for (unsigned i = 0; i < 12; ++i) {
        EXPECT_EQ(source->key(i), "sub/" + std::string(1, static_cast<char>('a' + i)));
        EXPECT_EQ(row(*source, i), gradient(kSize, i));
    }
    EXPECT_EQ(source->max_key_bytes(), 5U);
    EXPECT_EQ(source->origin(0), folder / "sub/a.png");
    EXPECT_EQ(source->description(), "images: 12 files under " + folder.path().string());
}

TEST_F(ImagesSource, GivesTheBandsOfTiffFilesToAModelOfArrays) {
    TiffPage page = tiff_page(kSize, {});
    std::vector<float> wanted;
    for (std::size_t c = 0; c < 2; ++c)
        for (std::size_t i = 0; i < kSize.pixels(); ++i) wanted.push_back(static_cast<float>(2 * i + c));
    for (std::size_t i = 0; i < kSize.pixels() * 2; ++i) page.values.push_back(static_cast<std::uint16_t>(i));
    page.samples = 2;
    page.bits = 16;
    page.photometric = PHOTOMETRIC_MINISBLACK;
    page.extra = {EXTRASAMPLE_UNSPECIFIED};
    folder.write("sub/b.png", encode_tiff({page}));  // contents decide, not names
    page.size = {kSize.height, kSize.width};
    folder.write("sub/c.png", encode_tiff({page}));
    const auto source = make(config,
                             TensorSpec::contiguous("input", kFloat32,
                                                    std::array{std::int64_t{4}, std::int64_t{2},
                                                               std::int64_t{kSize.height}, std::int64_t{kSize.width}}),
                             false);
    EXPECT_EQ(source->row_kind(), RowKind::Float32);
    std::vector<float> row(wanted.size());
    const auto reason = [&](std::uint64_t item) -> std::string {
        try {
            source->load(item, std::as_writable_bytes(std::span(row)));
        } catch (const UnreadableItem& unreadable) {
            return unreadable.what();
        }
        return "it was read";
    };
    EXPECT_EQ(reason(1), "it was read");
    EXPECT_EQ(row, wanted);
    EXPECT_THAT(reason(0), HasSubstr("a PNG image; a model that takes 2 bands"));
    EXPECT_THAT(reason(2), HasSubstr("TIFF of 40 x 24 pixels, and the model takes 24 x 40"));
}

TEST_F(ImagesSource, CutsTheMiddle) {
    config.image_size = 32;
    config.resize_size = 36;
    const auto source = make(config, test::picture_input({32, 32}));
    const PictureFrame frame({32, 32}, 36);
    Rgb wanted(frame.size.rgb_bytes());
    Resizer().resize_part(gradient(kSize, 3).data(), kSize, frame.part_of(kSize), wanted.data(), frame.size);
    EXPECT_EQ(test::row_of(*source, 3, frame.size), wanted);
}

TEST_F(ImagesSource, ResizesAsConfigured) {
    const ImageSize size{32, 32};
    config.interpolation = "bicubic";
    Rgb wanted(size.rgb_bytes());
    Resizer().resize_part(gradient(kSize, 3).data(), kSize, {.width = 32, .height = 32}, wanted.data(), size,
                          Interpolation::Bicubic);
    EXPECT_EQ(test::row_of(*make(config, test::picture_input(size)), 3, size), wanted);
    config.interpolation = "bilinear";
    EXPECT_NE(test::row_of(*make(config, test::picture_input(size)), 3, size), wanted);
}

// 64 x 64 with a smaller --resize-size; a size other than that in the settings, which is all that consumers know; two
// different sides.
TEST_F(ImagesSource, RefusesAnInvalidMiddle) {
    const auto reason = [&](ImageSize size, std::uint32_t image_size) -> std::string {
        config.image_size = image_size;
        config.resize_size = 48;
        try {
            (void)make(config, test::picture_input(size));
        } catch (const ConfigError& error) {
            EXPECT_EQ(error.kind(), ErrorKind::Usage);
            return error.what();
        }
        return "it was made";
    };
    EXPECT_THAT(reason({64, 64}, 64), AllOf(HasSubstr("--resize-size 48"), HasSubstr("64 x 64"),
                                            HasSubstr("a square --image-size of 32 to 48")));
    EXPECT_THAT(reason({16, 16}, 0), HasSubstr("16 x 16"));
    EXPECT_THAT(reason({40, 32}, 0), HasSubstr("32 x 40"));
    EXPECT_EQ(reason({48, 48}, 48), "it was made");
}

TEST_F(ImagesSource, GivesTheSameRowsToAnyNumberOfThreads) {
    const auto source = make(config, picture_input());
    std::vector<Rgb> rows(12);
    std::vector<std::thread> threads;
    for (std::uint64_t first = 0; first < 4; ++first)
        threads.emplace_back([&, first] {
            for (std::uint64_t item = first; item < 12; item += 4) rows[item] = row(*source, item);
        });
    for (std::thread& thread : threads) thread.join();
    for (unsigned i = 0; i < 12; ++i) EXPECT_EQ(rows[i], gradient(kSize, i));
}

TEST_F(ImagesSource, ALimitCutsTheListAndChangesNoKey) {
    folder.write("sub/a.jpg", "x");
    config.limit = 2;
    const auto source = part_of(make(config, picture_input()), config);
    EXPECT_EQ(source->items(), 2U);
    EXPECT_EQ(source->key(0), "sub/a.jpg");
    EXPECT_EQ(source->key(1), "sub/a.png");
    EXPECT_EQ(source->description(), "images: 13 files under " + folder.path().string() + ", of which the first 2");
    config.limit = 1;
    EXPECT_EQ(part_of(make(config, picture_input()), config)->key(0), "sub/a.jpg");
}

TEST_F(ImagesSource, AListMayNameFilesOutsideItsFolder) {
    config.input = folder.write("lists/list.txt", "../sub/b.png\n" + (folder / "sub/a.png") + "\n../sub/b.png\n");
    const auto source = make(config, picture_input());
    ASSERT_EQ(source->items(), 3U);
    EXPECT_EQ(source->key(0), "sub/b.png");
    EXPECT_EQ(source->key(2), "sub/b.png-2");
    EXPECT_FALSE(source->key(1).starts_with('/'));
    EXPECT_EQ(row(*source, 1), gradient(kSize, 0));
    EXPECT_EQ(row(*source, 2), gradient(kSize, 1));
}

TEST_F(ImagesSource, ReportsAnUnreadableItemAndReadsTheNext) {
    folder.write("sub/0.jpg", "text");
    const auto source = make(config, picture_input());
    EXPECT_THAT(test::error_of<UnreadableItem>([&] { row(*source, 0); }), HasSubstr("not an image"));
    EXPECT_EQ(row(*source, 1), gradient(kSize, 0));
}

TEST_F(ImagesSource, OriginsArePrintable) {
    folder.write("sub/0\n\xff.jpg", "text");
    EXPECT_EQ(make(config, picture_input())->origin(0), folder / "sub/0\\x0a\\xff.jpg");
}

TEST_F(ImagesSource, RefusesAModelWithoutPictures) {
    config.model = "encoder";
    const std::int64_t shape[] = {4, 128, 256};
    for (const TensorSpec& input : {TensorSpec{}, TensorSpec::contiguous("tokens", kFloat32, shape)}) {
        EXPECT_THAT(test::error_of<ConfigError>([&] { make(config, input, false); }),
                    AllOf(HasSubstr("'encoder'"), HasSubstr("model that takes pictures")));
    }
}

}  // namespace
}  // namespace offramp
