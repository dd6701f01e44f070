#include "common/app/images/picture_stamps.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "common/base/error.hpp"
#include "tests/unit/images/picture_files.hpp"

namespace offramp {
namespace {

TEST(PictureStamps, DistinguishReplacedFiles) {
    TempFolder folder;
    const std::string path = folder.write("a", "some bytes");
    const std::uint64_t stamp = stamp_of(path);
    EXPECT_NE(stamp, 0U);
    EXPECT_EQ(stamp_of(path), stamp);
    EXPECT_NE(stamp_of(PicturePlace(path, 0, 4)), stamp);
    EXPECT_NE(stamp_of(PicturePlace(path, 4, 4)), stamp_of(PicturePlace(path, 0, 4)));
    const auto written = std::filesystem::last_write_time(path);
    std::filesystem::last_write_time(path, written + std::chrono::nanoseconds(1000));
    EXPECT_NE(stamp_of(path), stamp);
    folder.write("a", "some more bytes");
    std::filesystem::last_write_time(path, written);
    EXPECT_NE(stamp_of(path), stamp) << "as long as it was, though it is of the same time";
    EXPECT_EQ(stamp_of(folder.path().string() + "/none"), 0U);
}

TEST(PictureStamps, AreStoredByPictureKey) {
    TempFolder folder;
    const std::string path = folder.path().string() + "/stamps";
    EXPECT_EQ(PictureStamps::kept(path).of("a"), 0U) << "no stamps are stored";
    PictureStamps stamps;
    for (int i = 0; i < 100; ++i) stamps.add("key " + std::to_string(i), 1000 + static_cast<std::uint64_t>(i));
    stamps.keep(path, true);
    EXPECT_EQ(std::filesystem::status(path).permissions(), static_cast<std::filesystem::perms>(0640));
    EXPECT_EQ(std::filesystem::file_size(path), 8U + 100 * 16);
    std::ifstream file(path, std::ios::binary);
    EXPECT_TRUE(std::string(std::istreambuf_iterator<char>(file), {}).starts_with("OFFRSTMP"));
    const PictureStamps kept = PictureStamps::kept(path);
    for (int i = 0; i < 100; ++i) EXPECT_EQ(kept.of("key " + std::to_string(i)), 1000 + static_cast<std::uint64_t>(i));
    EXPECT_EQ(kept.of("key 100"), 0U);
    for (const char* damaged : {"", "OFFRSTMP and more", "something else of some length"}) {
        folder.write("stamps", damaged);
        EXPECT_THROW(PictureStamps::kept(path), ProtocolError) << damaged;
    }
}

}  // namespace
}  // namespace offramp
