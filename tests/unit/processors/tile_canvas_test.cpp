#include "consumer/processors/segmentation/tile_canvas.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "common/app/images/geometry.hpp"
#include "common/base/error.hpp"
#include "common/base/log.hpp"
#include "consumer/processors/results/run_output.hpp"
#include "consumer/processors/segmentation/stitched_masks.hpp"
#include "consumer/sinks/files/atomic_file.hpp"
#include "tests/support/error_of.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/unit/processors/hand_made.hpp"

namespace offramp {
namespace {

namespace fs = std::filesystem;

// Two tiles across, two down; a seam of one pixel each way.
constexpr CanvasForm kForm{.picture = {7, 6}, .tiles = {4, 1}, .classes = 2};

struct TileCanvasTest : ::testing::Test {
    static std::string bytes_of(const std::string& path) {
        std::ifstream file(path, std::ios::binary);
        return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    }
    void write(const std::string& name, const std::string& text) const {
        fs::create_directories(fs::path(folder + "/" + name).parent_path());
        std::ofstream(folder + "/" + name) << text;
    }
    std::string text(const std::string& name) const { return bytes_of(folder + "/" + name); }

    test::ScratchFolder scratch;
    std::string folder = scratch.path();
};

// The file that consumers of one run share, and that a later run continues.
TEST_F(TileCanvasTest, ItsBytesAreFrozen) {
    const std::string path = folder + "/tiles/canvas";
    CanvasForm form = kForm;
    form.stamp = 0x0102030405060708;
    TileCanvas canvas(path, form, Durability::Process);
    const std::vector<std::uint8_t> ids{5, 6, 7};
    canvas.put_classes(4, 2, ids);
    const std::vector<float> scores{1.5F, -2.0F};
    canvas.put_scores(1, 1, {1, 1}, 0, scores);  // the crossing, of the last tile: its first seam
    canvas.put_scores(0, 0, {1, 0}, 0, std::vector<float>(6, 3.0F));
    int looks = 0;
    canvas.set({0, 2}, [&] { ++looks; });
    canvas.set({0, 2}, [&] { ++looks; });
    EXPECT_EQ(looks, 2) << "a repeated tile";
    const std::string bytes = bytes_of(path);
    std::string header("OFFRTILE\1\0\0\0\7\0\0\0\6\0\0\0\4\0\0\0\1\0\0\0\2\0\0\0\0\0\0\0\0\0\0\0", 40);
    EXPECT_EQ(bytes.substr(0, 56), header + "\10\7\6\5\4\3\2\1" + std::string("\1\0\0\0\0\0\0\0", 8));
    EXPECT_EQ(bytes.substr(4096, 9), std::string("\0\0\1\0\0\0\0\0\0", 9));
    EXPECT_EQ(bytes.substr(8192 + 2 * 7 + 4, 3), "\5\6\7");
    // Eight seams per tile, a page each.
    ASSERT_EQ(bytes.size(), 12288U + 4 * 8 * 4096);
    float found[2] = {};
    std::memcpy(found, bytes.data() + 12288 + 3 * 8 * 4096, sizeof found);
    EXPECT_EQ(found[0], 1.5F);
    EXPECT_EQ(found[1], -2.0F);
    std::memcpy(found, bytes.data() + 12288 + 6 * 4096,
                sizeof found);  // the edge below: three corners and three edges are before it
    EXPECT_EQ(found[0], 3.0F);
}

TEST_F(TileCanvasTest, SeamsOfATileAreSeparate) {
    TileCanvas canvas(folder + "/canvas", {.picture = {30, 30}, .tiles = {10, 3}, .classes = 3}, Durability::Process);
    std::vector<TileCanvas::Cell> seams;
    for (std::uint32_t row = 1; row < 4; ++row)
        for (std::uint32_t column = 1; column < 4; ++column)
            if (row != 2 || column != 2) seams.push_back({row, column});
    const auto scores_of = [&](std::size_t number, TileCanvas::Cell cell, std::uint32_t line) {
        return std::vector<float>(3 * std::size_t{canvas.tiling().across().cell(cell.column).length()},
                                  static_cast<float>(number * 100 + line));
    };
    for (std::size_t i = 0; i < seams.size(); ++i)
        for (std::uint32_t y = 0; y < canvas.tiling().down().cell(seams[i].row).length(); ++y)
            canvas.put_scores(1, 1, seams[i], y, scores_of(i, seams[i], y));
    canvas.drop_scores(1, 1, seams[3]);
    for (std::size_t i = 0; i < seams.size(); ++i)
        for (std::uint32_t y = 0; y < canvas.tiling().down().cell(seams[i].row).length(); ++y) {
            std::vector<float> found = scores_of(i, seams[i], y);
            const std::vector<float> wanted = found;
            canvas.take_scores(1, 1, seams[i], y, found);
            if (i != 3) {
                EXPECT_EQ(found, wanted) << i;
            }
        }
}

TEST_F(TileCanvasTest, RefusesAnotherForm) {
    const TileCanvas canvas(folder + "/canvas", kForm, Durability::Process);
    CanvasForm other = kForm;
    other.classes = 3;
    EXPECT_THAT(test::error_of([&] { const TileCanvas refused(folder + "/canvas", other, Durability::Process); },
                               ErrorKind::BadInput),
                testing::HasSubstr("number of classes"));
}

TEST_F(TileCanvasTest, RefusesAChangedPictureUntilItsMaskIsMade) {
    CanvasForm other = kForm;
    other.stamp = 5;
    TileCanvas canvas(folder + "/canvas", other, Durability::Process);
    EXPECT_THAT(test::error_of([&] { const TileCanvas refused(folder + "/canvas", kForm, Durability::Process); },
                               ErrorKind::BadInput),
                testing::AllOf(testing::HasSubstr("belongs to another version of the picture"),
                               testing::HasSubstr("--resume")));
    canvas.note_committed();
    EXPECT_TRUE(TileCanvas(folder + "/canvas", kForm, Durability::Process).is_committed());
}

TEST_F(TileCanvasTest, KnowsCommittedTiles) {
    const std::string path = folder + "/canvas";
    TileCanvas canvas(path, kForm, Durability::Process);
    for (std::uint32_t row = 0; row < 3; ++row)
        for (std::uint32_t column = 0; column < 3; ++column) {
            EXPECT_FALSE(canvas.all_set());
            canvas.set({row, column}, [] {});
        }
    EXPECT_TRUE(canvas.all_set());
    EXPECT_FALSE(TileCanvas::is_committed(path));
    EXPECT_FALSE(canvas.is_committed());
    canvas.note_committed();
    EXPECT_TRUE(TileCanvas::is_committed(path));
    EXPECT_TRUE(TileCanvas(path, kForm, Durability::Process).is_committed());
}

// A process with the same pid in another pid namespace may be writing it.
TEST_F(TileCanvasTest, KeepsTemporaryFilesOfOthers) {
    const std::string begin = ".offramp-tmp-" + std::to_string(::getpid());
    constexpr int kNames = 200;
    for (int i = 0; i < kNames; ++i)
        for (const char* kind : {"-", "-canvas-"}) write(begin + kind + std::to_string(i), "foreign");
    const TileCanvas canvas(folder + "/canvas", kForm, Durability::PowerCut);
    for (int i = 0; i < kNames; ++i)
        for (const char* kind : {"-", "-canvas-"}) EXPECT_EQ(text(begin + kind + std::to_string(i)), "foreign");
    EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 2 * kNames + 1);
}

TEST_F(TileCanvasTest, TheSecondProcessOpensTheFirstOnesFile) {
    TileCanvas first(folder + "/canvas", kForm, Durability::Process);
    AtomicFile second(folder + "/canvas");
    second.set_size(1);
    second.commit_if_none();
    first.set({0, 0}, [] {});
    EXPECT_TRUE(TileCanvas(folder + "/canvas", kForm, Durability::Process).is_set({0, 0}));
    EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 1);
}

// A picture two tiles wide and many high, tile by tile, in the order of delivery.
TEST_F(TileCanvasTest, FreesTheScoresOfSummedSeams) {
    constexpr TileSize kTiles{64, 16};
    constexpr ImageSize kPicture{112, 64 + 48 * 11};
    RunConfig config = test::config_for("mask-png", folder);
    config.tile = kTiles.tile;
    config.overlap = std::to_string(kTiles.overlap);
    const auto processor = make_processor("mask-png", config);
    test::HandMade made = test::one_sample();
    made.add(test::spec_of("scores", kFloat32, {1, 4, 64, 64}));
    const auto bytes_on_disk = [&] {
        struct stat facts {};
        EXPECT_EQ(::stat(fs::directory_iterator(folder + "/.offramp-tiles")->path().c_str(), &facts), 0);
        return static_cast<std::int64_t>(facts.st_blocks) * 512;
    };
    std::vector<std::int64_t> behind;
    for (std::uint32_t row = 0; row < 11; ++row) {
        for (const std::uint32_t column : {0U, 1U}) {
            const std::string key = tile_key({.picture = "a/long", .size = kPicture, .row = row, .column = column});
            made.contents.samples[0].key = key;
            processor->process(made.contents, test::kNoProgress, test::kCurrent);
        }
        behind.push_back(bytes_on_disk());
    }
    const std::int64_t classes = 112 * 48;
    const std::int64_t scores = 2 * 64 * 16 * 4 * 4;  // of the seam with the next row, which wait for it
    EXPECT_GT(behind[1], scores);
    // Some pages belong to two rows of tiles, each of which put more than 200 KB there.
    EXPECT_LT(behind[10] - behind[1], 9 * (classes + 4096)) << "the scores of finished rows still use space";
}

TEST_F(TileCanvasTest, ContainsThePicturesName) {
    const TileCanvas named(folder + "/named", kForm, Durability::Process, "a/\xc3\xa4.b");
    const TileCanvas nameless(folder + "/nameless", kForm, Durability::Process);
    const TileCanvas longer(folder + "/longer", kForm, Durability::Process, std::string(5000, 'x'));
    write("other", std::string(5000, 'x'));
    EXPECT_EQ(TileCanvas::name_of(folder + "/named"), "a/\xc3\xa4.b");
    EXPECT_EQ(TileCanvas::name_of(folder + "/nameless"), "");
    EXPECT_EQ(TileCanvas::name_of(folder + "/longer"), std::string(1023, 'x'));
    EXPECT_EQ(TileCanvas::name_of(folder + "/other"), "");
    EXPECT_EQ(TileCanvas::name_of(folder + "/none"), "");
}

TEST_F(TileCanvasTest, ReportsIncompletePicturesAtTheEnd) {
    const auto warning = [&](const std::function<void(const RunOutput&)>& end) {
        std::ostringstream text;
        const auto before = spdlog::default_logger();
        spdlog::set_default_logger(
            std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(text)));
        end(*tile_canvases());
        spdlog::set_default_logger(before);
        return text.str();
    };
    const auto end = [&](const RunOutput& output) { output.note_end({.output = folder}); };
    const std::string next = folder + "/.offramp-tiles/";
    EXPECT_EQ(warning(end), "");
    TileCanvas(next + "0", kForm, Durability::Process, "whole").note_committed();
    const TileCanvas first(next + "1", kForm, Durability::Process, "p1");
    const auto broken_off = [&](const RunOutput& output) { output.note_broken_off({.output = folder}); };
    EXPECT_THAT(warning(broken_off), ::testing::HasSubstr("1 picture is not finished: p1; --resume continues with it"));
    EXPECT_TRUE(fs::exists(next + "0")) << "which goes on with it";
    for (const char* name : {"5", "4", "3", "2"})
        TileCanvas(next + name, kForm, Durability::Process, std::string("p") + name);
    EXPECT_THAT(
        warning(broken_off),
        ::testing::AllOf(
            ::testing::HasSubstr("5 pictures are not finished: p1, p2, p3, and 2 more; --resume continues with them"),
            ::testing::Not(::testing::HasSubstr("remove"))));
    EXPECT_THAT(warning(end),
                ::testing::HasSubstr(
                    "5 pictures lack tiles and have no mask: p1, p2, p3, and 2 more; their finished tiles, 1 MiB in " +
                    folder + "/.offramp-tiles, are kept for --resume"))
        << "by the place where they are put";
    EXPECT_FALSE(fs::exists(next + "0"));
}

TEST_F(TileCanvasTest, TheEndOfARunRemovesCompleteFiles) {
    TileCanvas(folder + "/.offramp-tiles/whole", kForm, Durability::Process).note_committed();
    tile_canvases()->note_end({.output = folder});
    EXPECT_FALSE(fs::exists(folder + "/.offramp-tiles"));
    TileCanvas(folder + "/.offramp-tiles/whole", kForm, Durability::Process).note_committed();
    const TileCanvas half(folder + "/.offramp-tiles/half", kForm, Durability::Process);
    EXPECT_EQ(tile_canvases()->look({.output = folder}), folder + "/.offramp-tiles");
    tile_canvases()->note_end({.output = folder});
    EXPECT_FALSE(fs::exists(folder + "/.offramp-tiles/whole"));
    EXPECT_TRUE(fs::exists(folder + "/.offramp-tiles/half"));
}

}  // namespace
}  // namespace offramp
