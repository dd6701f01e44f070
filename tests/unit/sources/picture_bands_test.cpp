#include "producer/runner/sources/tiles/picture_cuts.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/unit/images/picture_files.hpp"

namespace offramp {
namespace {

constexpr ImageSize kTall{8, 400};
constexpr TileSize kLow{16, 4};

// A finished row of tiles is freed, however high the picture is.
TEST(PictureBands, AreDroppedBehindTheKeptOnes) {
    TempFolder folder;
    const std::string path = folder.write("tall.png", encode_png(kTall, noise(kTall)));
    constexpr std::uint32_t kKept = 3;
    PictureBands bands(path, kTall, kLow, kKept);
    std::vector<std::weak_ptr<const PictureBand>> seen;
    const std::uint32_t rows = TileAxis(kTall.height, kLow).tiles();
    ASSERT_GT(rows, 20U);
    const std::shared_ptr<const PictureBand> lent = bands.of_row(0);
    seen.emplace_back(lent);
    for (std::uint32_t row = 1; row < rows; ++row) {
        seen.emplace_back(bands.of_row(row));
        for (std::uint32_t before = 1; before <= row; ++before)
            EXPECT_EQ(seen[before].expired(), before + kKept <= row) << before << " of " << row;
    }
    EXPECT_EQ(lent.use_count(), 1) << "only its reader keeps it";
    EXPECT_EQ(lent->pixels.size(), std::size_t{kLow.tile} * kTall.width * 3);
}

}  // namespace
}  // namespace offramp
