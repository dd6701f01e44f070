#include "common/app/images/geometry.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <vector>

namespace offramp {
namespace {

TileSize any_size() {
    TileSize size;
    size.tile = *rc::gen::inRange<std::uint32_t>(1, 90);
    size.overlap = *rc::gen::inRange<std::uint32_t>(0, (size.tile + 1) / 2);
    return size;
}

RC_GTEST_PROP(TileAxis, CoversEachPixelOnceByCellsAndByShares, ()) {
    const TileSize size = any_size();
    const auto length = *rc::gen::inRange<std::uint32_t>(1, 1000);
    const TileAxis axis(length, size);
    std::uint32_t next = 0;
    for (std::uint32_t cell = 0; cell < axis.cells(); ++cell) {
        RC_ASSERT(axis.cell(cell).begin == next);
        RC_ASSERT(axis.cell(cell).end >= next);
        if (cell % 2 == 1) RC_ASSERT(axis.cell(cell).length() == size.overlap);
        next = axis.cell(cell).end;
    }
    RC_ASSERT(next == length);
    next = 0;
    for (std::uint32_t tile = 0; tile < axis.tiles(); ++tile) {
        RC_ASSERT(axis.share(tile).begin == next);
        next = axis.share(tile).end;
    }
    RC_ASSERT(next == length);
}

RC_GTEST_PROP(TileAxis, ATileShowsItsCellsAndNothingBeyondThePicture, ()) {
    const TileSize size = any_size();
    const auto length = *rc::gen::inRange<std::uint32_t>(1, 1000);
    const TileAxis axis(length, size);
    for (std::uint32_t tile = 0; tile < axis.tiles(); ++tile) {
        const std::uint32_t first = axis.first_shown(tile), end = first + std::min(size.tile, length);
        RC_ASSERT(end <= length);
        const std::uint32_t before = tile == 0 ? 0 : 2 * tile - 1;
        const std::uint32_t behind = std::min(2 * tile + 1, axis.cells() - 1);
        RC_ASSERT(axis.cell(before).begin >= first);
        RC_ASSERT(axis.cell(behind).end <= end);
        RC_ASSERT(axis.share(tile).begin >= first);
        RC_ASSERT(axis.share(tile).end <= end);
    }
}

RC_GTEST_PROP(SeamWeights, AddUpToOneAndMirrorOneAnother, ()) {
    const auto overlap = *rc::gen::inRange<std::uint32_t>(1, 5000);
    const auto pixel = *rc::gen::inRange<std::uint32_t>(0, overlap);
    RC_ASSERT(later_weight(pixel) + earlier_weight(pixel, overlap) == seam_weight(overlap));
    RC_ASSERT(later_weight(pixel) == earlier_weight(overlap - 1 - pixel, overlap));
    RC_ASSERT(earlier_weight(pixel, overlap) > 0);
}

TEST(TileKey, ReadsBackItsKeysAndNoOthers) {
    const TileSize size{64, 8};
    const TileOfPicture tile{.picture = "a#b/c", .size = {200, 64}, .row = 0, .column = 3};
    const std::string key = tile_key(tile);
    EXPECT_EQ(key, "a#b/c#200x64@0,3");
    const auto read = tile_of_key(key, size);
    ASSERT_TRUE(read.has_value());
    EXPECT_EQ(read->picture, "a#b/c");
    EXPECT_EQ(read->size, (ImageSize{200, 64}));
    EXPECT_EQ(read->row, 0U);
    EXPECT_EQ(read->column, 3U);
    for (const char* none : {"", "a", "#200x64@0,3", "a#200x64@0,4", "a#200x64@1,0", "a#200x64@0,3 ", "a#200x64@0",
                             "a#0x64@0,0", "a#-200x64@0,0", "a#200x64@0,99999999999", "a#4294967295x4294967295@0,0"})
        EXPECT_FALSE(tile_of_key(none, size).has_value()) << none;
}

}  // namespace
}  // namespace offramp
