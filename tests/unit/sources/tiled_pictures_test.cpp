#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tiff.h>

#include <spdlog/sinks/ostream_sink.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "common/app/images/geometry.hpp"
#include "common/app/images/unreadable_item.hpp"
#include "common/base/error.hpp"
#include "common/base/log.hpp"
#include "producer/runner/sources/batch_source.hpp"
#include "producer/runner/sources/source_items.hpp"
#include "tests/support/error_of.hpp"
#include "tests/unit/images/jpeg_files.hpp"
#include "tests/unit/images/tiff_files.hpp"
#include "tests/unit/sources/making.hpp"

namespace offramp {
namespace {

using ::testing::HasSubstr;

constexpr TileSize kTiles{16, 4};
constexpr ImageSize kTileSize{16, 16};

struct TiledPicturesSource : ::testing::Test {
    TiledPicturesSource() {
        config.input = folder.path();
        config.tile = kTiles.tile;
        config.overlap = std::to_string(kTiles.overlap);
        config.decode_workers = 4;
    }

    void write(const std::string& name, ImageSize size) { folder.write(name + ".png", encode_png(size, noise(size))); }
    std::unique_ptr<BatchSource> make(ImageSize input = kTileSize) {
        return test::make_source("images", config, test::picture_input(input), true);
    }

    TempFolder folder;
    RunConfig config;
};

// The pixels of a tile, from the whole picture; beyond it, its last pixels.
Rgb shown(const TileOfPicture& tile) {
    const Rgb all = noise(tile.size);
    const Tiling tiling(tile.size, kTiles);
    const std::uint32_t top = tiling.down().first_shown(tile.row), left = tiling.across().first_shown(tile.column);
    Rgb pixels;
    for (std::uint32_t y = 0; y < kTiles.tile; ++y)
        for (std::uint32_t x = 0; x < kTiles.tile; ++x)
            for (std::size_t c = 0; c < 3; ++c)
                pixels.push_back(all[(std::size_t{std::min(top + y, tile.size.height - 1)} * tile.size.width +
                                      std::min(left + x, tile.size.width - 1)) *
                                         3 +
                                     c]);
    return pixels;
}

TEST_F(TiledPicturesSource, CutsTilesInOrder) {
    const std::vector<ImageSize> sizes{{100, 61}, {1, 1}, {16, 16}, {17, 40}, {9, 200}};
    for (std::size_t i = 0; i < sizes.size(); ++i) write(std::string(1, static_cast<char>('a' + i)), sizes[i]);
    const auto source = make();
    std::uint64_t wanted = 0;
    for (const ImageSize size : sizes) wanted += Tiling(size, kTiles).tiles();
    ASSERT_EQ(source->items(), wanted);
    std::atomic<std::uint64_t> next{0}, wrong{0};
    const auto work = [&] {
        for (std::uint64_t item = next++; item < source->items(); item = next++) {
            const auto tile = tile_of_key(source->key(item), kTiles);
            if (!tile || test::row_of(*source, item, kTileSize) != shown(*tile)) ++wrong;
        }
    };
    {
        std::vector<std::jthread> workers;
        for (int i = 0; i < 4; ++i) workers.emplace_back(work);
    }
    EXPECT_EQ(wrong, 0U);
    for (std::uint64_t item = source->items(); item-- > 0;)  // each row starts again at the top
        EXPECT_EQ(test::row_of(*source, item, kTileSize), shown(*tile_of_key(source->key(item), kTiles)));
    std::set<std::string_view> keys;
    for (std::uint64_t item = 0; item < source->items(); ++item) keys.insert(source->key(item));
    EXPECT_EQ(keys.size(), source->items());
    EXPECT_EQ(source->key(1), "a#100x61@0,1");
    EXPECT_EQ(source->key_of_whole(1), "a");
    EXPECT_EQ(source->origin(1), folder / "a.png" + ", tile 0,1");
}

// Sample i of a file is i modulo 65,536.
TEST_F(TiledPicturesSource, CutsBandsOfTiffFiles) {
    constexpr std::uint16_t kChannels = 5;
    const ImageSize size{53, 37}, narrow{9, 40};
    const auto page_of = [](ImageSize of, ImageSize tile, int planar) {
        TiffPage page = tiff_page(of, {});
        for (std::size_t i = 0; i < of.pixels() * kChannels; ++i) page.values.push_back(static_cast<std::uint16_t>(i));
        page.samples = kChannels;
        page.bits = 16;
        page.photometric = PHOTOMETRIC_MINISBLACK;
        page.extra.assign(kChannels - 1, EXTRASAMPLE_UNSPECIFIED);
        page.compression = COMPRESSION_LZW;
        page.planar = static_cast<std::uint16_t>(planar);
        page.tile = tile;
        return encode_tiff({page});
    };
    folder.write("a.tif", page_of(size, {0, 0}, PLANARCONFIG_CONTIG));
    folder.write("b.tif", page_of(size, {0, 0}, PLANARCONFIG_SEPARATE));
    folder.write("c.tif", page_of(size, {32, 16}, PLANARCONFIG_CONTIG));
    folder.write("d.tif", page_of(narrow, {16, 16}, PLANARCONFIG_SEPARATE));
    write("e", size);  // a PNG
    const auto input = [](std::int64_t channels) {
        return TensorSpec::contiguous("input", kFloat32,
                                      std::array{std::int64_t{4}, channels, std::int64_t{16}, std::int64_t{16}});
    };
    const auto source = test::make_source("images", config, input(kChannels), false);
    EXPECT_EQ(source->row_kind(), RowKind::Float32);
    ASSERT_EQ(source->items(), 3 * Tiling(size, kTiles).tiles() + Tiling(narrow, kTiles).tiles() + 1);
    std::vector<float> row(std::size_t{kChannels} * kTiles.tile * kTiles.tile);
    for (std::uint64_t item = 0; item + 1 < source->items(); ++item) {
        source->load(item, std::as_writable_bytes(std::span(row)));
        const auto tile = tile_of_key(source->key(item), kTiles);
        ASSERT_TRUE(tile);
        const Tiling tiling(tile->size, kTiles);
        const std::uint32_t top = tiling.down().first_shown(tile->row),
                            left = tiling.across().first_shown(tile->column);
        std::vector<float> wanted;
        for (std::size_t c = 0; c < kChannels; ++c)
            for (std::uint32_t y = 0; y < kTiles.tile; ++y)
                for (std::uint32_t x = 0; x < kTiles.tile; ++x) {
                    const std::size_t pixel = std::size_t{std::min(top + y, tile->size.height - 1)} * tile->size.width +
                                              std::min(left + x, tile->size.width - 1);
                    wanted.push_back(static_cast<float>(static_cast<std::uint16_t>(pixel * kChannels + c)));
                }
        EXPECT_EQ(row, wanted) << source->key(item);
    }
    EXPECT_THROW(source->load(source->items() - 1, std::as_writable_bytes(std::span(row))), UnreadableItem);
    EXPECT_EQ(test::make_source("images", config, input(4), false)->items(), 5U) << "one for each unreadable picture";
}

TEST_F(TiledPicturesSource, ReadsADamagedPictureUpToTheDamage) {
    const ImageSize size{64, 300};
    const std::string png = encode_png(size, noise(size));
    folder.write("half.png", png.substr(0, png.size() / 2));
    folder.write("none.png", "no picture");
    const auto source = make();
    const std::uint64_t tiles = Tiling(size, kTiles).tiles();
    ASSERT_EQ(source->items(), tiles + 1);
    std::vector<bool> read;
    for (std::uint64_t item = 0; item < tiles; ++item) {
        try {
            EXPECT_EQ(test::row_of(*source, item, kTileSize), shown(*tile_of_key(source->key(item), kTiles)));
            read.push_back(true);
        } catch (const UnreadableItem& unreadable) {
            EXPECT_THAT(unreadable.what(), HasSubstr("truncated PNG"));
            read.push_back(false);
        }
    }
    EXPECT_TRUE(read.front());
    EXPECT_FALSE(read.back());
    EXPECT_TRUE(std::is_sorted(read.rbegin(), read.rend()));
    EXPECT_THROW(test::row_of(*source, tiles, kTileSize), UnreadableItem);
}

TEST_F(TiledPicturesSource, ADamagedJpegHasADamagedTile) {
    const ImageSize size{83, 61};
    const std::string file = encode_jpeg(size, noise(size), JpegTables{.restart_blocks = 2});
    const std::size_t marker = file.find("\xff\xd3");
    ASSERT_NE(marker, std::string::npos);
    RunConfig whole = config;
    whole.tile = 0;
    for (const std::size_t lost : {2U, 3U, 40U}) {
        folder.write("a.jpg", std::string(file).erase(marker, lost));
        const auto at_once = test::make_source("images", whole, test::picture_input(kTileSize), true);
        EXPECT_THROW(test::row_of(*at_once, 0, kTileSize), UnreadableItem) << lost;
        const auto tiled = make();
        EXPECT_THROW(test::row_of(*tiled, tiled->items() - 1, kTileSize), UnreadableItem) << lost;
    }
}

// Even by one of the same size, and in the middle of reading it.
TEST_F(TiledPicturesSource, DoesNotReadAPictureThatChangedSinceTheListing) {
    const ImageSize size{40, 40};
    write("a", size);
    write("b", size);
    const auto source = make();
    const std::uint64_t tiles = Tiling(size, kTiles).tiles();
    EXPECT_NE(source->stamp(0), 0U);
    EXPECT_EQ(source->stamp(0), source->stamp(tiles - 1));
    EXPECT_EQ(test::row_of(*source, 0, kTileSize), shown(*tile_of_key(source->key(0), kTiles)));
    const auto changed = std::filesystem::last_write_time(folder / "a.png") + std::chrono::seconds(1);
    folder.write("a.png", encode_png(size, gradient(size, 7)));
    std::filesystem::last_write_time(folder / "a.png", changed);
    for (std::uint64_t item = 0; item < tiles; ++item) {
        EXPECT_THAT(test::error_of<UnreadableItem>([&] { test::row_of(*source, item, kTileSize); }),
                    HasSubstr("the picture changed after the run began"))
            << item << " was read";
    }
    EXPECT_EQ(test::row_of(*source, tiles, kTileSize), shown(*tile_of_key(source->key(tiles), kTiles)));
    EXPECT_NE(make()->stamp(0), source->stamp(0));
    EXPECT_EQ(make()->stamp(tiles), source->stamp(tiles));
    EXPECT_EQ(part_of(make(), config)->stamp(tiles), source->stamp(tiles));
}

TEST_F(TiledPicturesSource, ALimitCountsPictures) {
    write("a", {40, 40});
    write("b", {40, 40});
    config.limit = 1;
    const auto source = part_of(make(), config);
    EXPECT_EQ(source->items(), Tiling({40, 40}, kTiles).tiles());
    EXPECT_THAT(source->description(), HasSubstr("of which the first 1, in 9 tiles of 16 pixels that overlap by 4"));
}

// The log of creating the source.
std::string logged_by(const std::function<void()>& work) {
    std::ostringstream text;
    const auto before = spdlog::default_logger();
    spdlog::set_default_logger(
        std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(text)));
    work();
    spdlog::set_default_logger(before);
    return text.str();
}

TEST_F(TiledPicturesSource, WarnsOfMostlyEmptyTiles) {
    const auto warning = [&] { return logged_by([&] { make(); }); };
    write("a", {10, 10});
    EXPECT_THAT(warning(), HasSubstr("--tile 16 is large for these pictures: in 1 of 1 tiles, more than half is"));
    EXPECT_THAT(warning(), HasSubstr("a.png, 10 x 10 pixels"));
    write("b", {100, 5});
    EXPECT_THAT(warning(), HasSubstr("in 9 of 9 tiles"));
    write("c", {200, 100});
    EXPECT_EQ(warning(), "") << "most tiles are of the large one";
    std::filesystem::remove(folder / "a.png");
    std::filesystem::remove(folder / "c.png");
    write("b", {100, 8});
    EXPECT_EQ(warning(), "") << "half of each is the picture";
}

TEST_F(TiledPicturesSource, RefusesAnotherSizeThanTheModels) {
    write("a", {40, 40});
    EXPECT_THAT(test::error_of<ConfigError>([&] {
                    make({32, 32});
                }),
                testing::AllOf(HasSubstr("--tile 16: the model"), HasSubstr("takes pictures of 32 x 32 pixels")));
}

TEST_F(TiledPicturesSource, SkipsAPictureWhoseRowsDoNotFitInMemory) {
    config.tile = 8192;
    config.overlap = "0";
    folder.write("wide.png", png_header({300'000, 9000}) + std::string(100, 'x'));
    const auto source = make({8192, 8192});
    ASSERT_EQ(source->items(), 1U);
    std::vector<std::byte> row;
    EXPECT_THAT(test::error_of<UnreadableItem>([&] { source->load(0, row); }),
                HasSubstr("8192 rows are 7031 MiB; at most 1024 MiB are held in memory"));
}

}  // namespace
}  // namespace offramp
