#include "producer/runner/checkpoint/tiles_in_place.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "common/app/images/canvas_file.hpp"
#include "common/base/error.hpp"
#include "consumer/processors/segmentation/tile_canvas.hpp"
#include "tests/contract/processors/processor_world.hpp"

namespace offramp {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kNow = 77;  // the stamp of each picture

// "a" has two by two tiles, items 0 to 3; "b" has one, item 4.
class TilesOfTwo final : public BatchSource {
  public:
    TilesOfTwo() {
        for (std::uint32_t row = 0; row < 2; ++row)
            for (std::uint32_t column = 0; column < 2; ++column)
                keys_.push_back(tile_key({.picture = "a", .size = {7, 6}, .row = row, .column = column}));
        keys_.push_back(tile_key({.picture = "b", .size = {3, 4}, .row = 0, .column = 0}));
    }
    std::string description() const override { return "tiles"; }
    std::uint64_t items() const override { return keys_.size(); }
    RowKind row_kind() const override { return RowKind::Nothing; }
    std::string_view key(std::uint64_t item) const override { return keys_[item]; }
    std::size_t max_key_bytes() const override { return 24; }
    std::string origin(std::uint64_t item) const override { return keys_[item]; }
    std::uint64_t stamp(std::uint64_t) const override { return kNow; }
    void load(std::uint64_t, std::span<std::byte>) override {}

  private:
    std::vector<std::string> keys_;
};

struct TilesInPlaceTest : ::testing::Test {
    TilesInPlaceTest() {
        config.output = folder.path();
        config.tile = 4;
        config.overlap = "1";
        config.processor = "mask-png";
        done.add({0, 5});
    }

    static TensorSpec scores(const std::string& name) {
        return TensorSpec::contiguous(name, kFloat32, std::array<std::int64_t, 4>{1, 2, 4, 4});
    }
    std::vector<StitchedOutput> stitched() const {
        std::vector<TensorSpec> specs;
        for (const std::string& name : outputs) specs.push_back(scores(name));
        return stitched_outputs(config, specs, 1);
    }
    std::string canvas_path(const std::string& mask = "a") const {
        return canvas_folder(config.output) + "/" + canvas_name(mask);
    }
    TileCanvas canvas(const std::string& mask = "a", std::uint64_t stamp = kNow) const {
        return {
            canvas_path(mask), {.picture = {7, 6}, .tiles = {4, 1}, .classes = 2, .stamp = stamp}, Durability::Process};
    }
    static void set(TileCanvas canvas, const std::vector<CanvasCell>& cells) {
        for (const CanvasCell cell : cells) canvas.set(cell, [] {});
    }
    static std::vector<CanvasCell> all_cells() {
        std::vector<CanvasCell> cells;
        for (std::uint32_t row = 0; row < 3; ++row)
            for (std::uint32_t column = 0; column < 3; ++column) cells.push_back({row, column});
        return cells;
    }
    void write(const std::string& name, const std::string& text) const {
        std::ofstream(folder.path() + "/" + name) << text;
    }
    void make_mask(const std::string& mask = "a") const { write(mask + ".png", "a mask"); }
    std::vector<ItemRange> left() const { return TilesInPlace(config, source, stitched()).of(done).list(); }
    std::string lost() const {
        try {
            TilesInPlace(config, source, stitched()).require(done);
        } catch (const Error& problem) {
            EXPECT_EQ(problem.kind(), ErrorKind::CannotWrite);
            return problem.what();
        }
        return "";
    }

    using Ranges = std::vector<ItemRange>;
    const Ranges all{{0, 5}}, nothing_of_a{{4, 5}};
    test::ScratchFolder folder;
    RunConfig config;
    TilesOfTwo source;
    ItemRanges done;
    std::vector<std::string> outputs{"scores"};
};

TEST_F(TilesInPlaceTest, NothingIsDoneWithoutWorkingFileAndMask) {
    EXPECT_EQ(left(), nothing_of_a) << "a picture of one tile has no working file";
    make_mask();
    EXPECT_EQ(left(), all);
    EXPECT_EQ(lost(), "");
    fs::remove(folder.path() + "/a.png");
    EXPECT_THAT(lost(), ::testing::HasSubstr("finished results are gone, of 4 tiles of 1 picture (a)"));
    EXPECT_THAT(lost(), ::testing::HasSubstr("--resume processes them again"));
}

TEST_F(TilesInPlaceTest, AnUnfinishedMaskNeedsItsWorkingFile) {
    make_mask();
    done = {};
    done.add({1, 5});
    EXPECT_EQ(left(), nothing_of_a) << "the other tiles would be missing";
    config.shard = "1/1";
    EXPECT_EQ(left(), (Ranges{{1, 5}})) << "the others belong to another shard";
}

TEST_F(TilesInPlaceTest, TheSetTilesOfAWorkingFileAreDone) {
    set(canvas(), {{0, 0}, {2, 2}});
    EXPECT_EQ(left(), (Ranges{{0, 1}, {3, 5}}));
    EXPECT_TRUE(fs::exists(canvas_path())) << "it is continued";
    EXPECT_THAT(lost(), ::testing::HasSubstr("2 tiles of 1 picture"));
    make_mask();
    EXPECT_EQ(left(), (Ranges{{0, 1}, {3, 5}})) << "the mask may be an earlier run's";
}

TEST_F(TilesInPlaceTest, RedoesTheTilesOfAnIncompleteSeam) {
    set(canvas(), {{0, 0}, {0, 2}, {2, 0}, {1, 0}});  // the seam {0, 1} is lost
    EXPECT_EQ(left(), (Ranges{{2, 3}, {4, 5}})) << "the last tile does not touch the seam";
    set(canvas(), {{0, 1}});
    EXPECT_EQ(left(), (Ranges{{0, 3}, {4, 5}})) << "the crossing waits for the last tile";
}

TEST_F(TilesInPlaceTest, RedoesOneTileOfAFullWorkingFileToPlaceTheMask) {
    set(canvas(), all_cells());
    EXPECT_EQ(left(), (Ranges{{1, 5}}));
}

TEST_F(TilesInPlaceTest, AnExistingMaskIsFinished) {
    canvas().note_committed();
    make_mask();
    EXPECT_EQ(left(), all);
    fs::remove(folder.path() + "/a.png");
    EXPECT_EQ(lost(), "") << "removing masks during the run loses none";
    EXPECT_EQ(left(), nothing_of_a);
    EXPECT_FALSE(fs::exists(canvas_path())) << "its classes were freed";
}

TEST_F(TilesInPlaceTest, RedoesAChangedPictureUnlessItsMaskIsFinished) {
    set(canvas("a", 78), {{0, 0}, {0, 2}, {0, 1}});
    EXPECT_THAT(lost(), ::testing::HasSubstr("4 tiles"));
    EXPECT_TRUE(fs::exists(canvas_path())) << "the end removes nothing";
    EXPECT_EQ(left(), nothing_of_a);
    EXPECT_FALSE(fs::exists(canvas_path()));
    set(canvas("a", 78), all_cells());
    done = {};
    EXPECT_EQ(left(), Ranges{});
    EXPECT_FALSE(fs::exists(canvas_path())) << "even without a note of it";
    done.add({0, 5});
    canvas("a", 78).note_committed();
    make_mask();
    EXPECT_EQ(left(), all);
}

TEST_F(TilesInPlaceTest, RemovesAWorkingFileOfAnotherForm) {
    const std::vector<std::function<void()>> ways{
        [&] { fs::resize_file(canvas_path(), 8192); },
        [&] { fs::resize_file(canvas_path(), 20); },
        [&] { fs::resize_file(canvas_path(), 0); },
        [&] { fs::resize_file(canvas_path(), fs::file_size(canvas_path()) + 1); },
        [&] { std::fstream(canvas_path(), std::ios::in | std::ios::out | std::ios::binary) << "SOMETHINGELSE"; },
        [&] {  // an invalid byte in the cells
            std::fstream file(canvas_path(), std::ios::in | std::ios::out | std::ios::binary);
            file.seekp(4096 + 4);
            file << 'x';
        },
        [&] {  // a cleared cell: its seams' scores may have been freed
            std::fstream file(canvas_path(), std::ios::in | std::ios::out | std::ios::binary);
            file.seekp(4096);
            file << '\0';
        },
        [&] {  // another version
            std::fstream file(canvas_path(), std::ios::in | std::ios::out | std::ios::binary);
            file.seekp(8);
            file << '\2';
        },
        [&] {  // a picture without pixels
            std::fstream file(canvas_path(), std::ios::in | std::ios::out | std::ios::binary);
            file.seekp(12);
            file.write("\0\0\0\0\0\0\0\0", 8);
        },
        [&] {  // other tiles
            fs::remove(canvas_path());
            const TileCanvas other(canvas_path(), {.picture = {7, 6}, .tiles = {5, 2}, .classes = 2, .stamp = kNow},
                                   Durability::Process);
        }};
    for (std::size_t way = 0; way < ways.size(); ++way) {
        set(canvas(), {{0, 0}, {0, 2}, {0, 1}});
        ways[way]();
        EXPECT_EQ(left(), nothing_of_a) << way;
        EXPECT_FALSE(fs::exists(canvas_path())) << way;
    }
}

TEST_F(TilesInPlaceTest, EachOfSeveralOutputsHasAMask) {
    outputs = {"one", "two"};
    canvas("a.one").note_committed();
    make_mask("a.one");
    EXPECT_EQ(left(), nothing_of_a);
    set(canvas("a.two"), {{0, 0}});
    EXPECT_EQ(left(), (Ranges{{0, 1}, {4, 5}}));
    make_mask("a.two");
    canvas("a.two").note_committed();
    EXPECT_EQ(left(), all);
}

TEST_F(TilesInPlaceTest, KeepsAllFilesWithoutMasksOfTiles) {
    config.processor = "npy";
    EXPECT_EQ(left(), all);
    config.processor = "npy,mask-png";
    EXPECT_EQ(left(), nothing_of_a);
    fs::create_directories(folder.path() + "/mask-png");
    make_mask("mask-png/a");
    EXPECT_EQ(left(), all);
}

// Two producers of shards find it at the same time: the second keeps the file that the first one's consumers have
// created since.
TEST_F(TilesInPlaceTest, KeepsAWorkingFileThatAnotherProcessReplaced) {
    const CanvasForm wanted{.picture = {7, 6}, .tiles = {4, 1}, .classes = 0, .stamp = kNow};
    set(canvas("a", 78), {{0, 0}});
    FoundCanvas first(canvas_path(), wanted), second(canvas_path(), wanted);
    first.remove();
    set(canvas(), {{0, 0}});
    second.remove();
    EXPECT_TRUE(FoundCanvas(canvas_path(), wanted).matches_form());
}

}  // namespace
}  // namespace offramp
