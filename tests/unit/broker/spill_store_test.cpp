#include "producer/broker/spill_store.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>

#include "common/base/error.hpp"
#include "tests/support/error_of.hpp"

namespace offramp {
namespace {

using testing::HasSubstr;

class SpillStoreTest : public testing::Test {
  protected:
    ~SpillStoreTest() override { std::filesystem::remove_all(folder_); }

    SpillStore::Outcome outcome() {
        done_.wait(0);
        done_ = 0;
        return *store_.take_outcome();
    }

    const std::string folder_ = testing::TempDir() + "spill_store_test." + std::to_string(::getpid());
    std::atomic<int> done_{0};
    SpillStore store_{folder_, [this] {
                          done_ = 1;
                          done_.notify_all();
                      }};
    std::vector<std::byte> bytes_ = std::vector<std::byte>(100'000, std::byte{7});
};

TEST_F(SpillStoreTest, ReadsBackTheSameBytes) {
    store_.write(3, 12, bytes_);
    const SpillStore::Outcome written = outcome();
    EXPECT_EQ(written.error, "");
    EXPECT_EQ(written.file.path, folder_ + "/slab-3-12.spill");
    EXPECT_FALSE(store_.busy());
    std::vector<std::byte> back(bytes_.size());
    store_.read(written.file, 1, back);
    const SpillStore::Outcome read = outcome();
    EXPECT_EQ(read.error, "");
    EXPECT_EQ(read.slab, 1U);
    EXPECT_EQ(back, bytes_);
    struct stat status {};
    ::stat(folder_.c_str(), &status);
    EXPECT_EQ(status.st_mode & 0777U, 0700U);
}

TEST_F(SpillStoreTest, AFileMayBeMarkedAsLostWhileItIsRead) {
    store_.write(3, 12, bytes_);
    SpilledFile file = outcome().file;
    std::vector<std::byte> back(bytes_.size());
    store_.read(file, 1, back);
    SpillStore::mark_lost(file);
    EXPECT_EQ(file.path, folder_ + "/lost-3-12.spill");
    EXPECT_EQ(outcome().error, "");
    EXPECT_EQ(back, bytes_);
    const auto left = store_.left_there();
    ASSERT_EQ(left.size(), 1U);
    EXPECT_TRUE(left[0].lost);
    EXPECT_EQ(left[0].path, file.path);
    EXPECT_EQ(left[0].slab, 3U);
    EXPECT_EQ(left[0].generation, 12U);
    SpillStore::remove(file);
    EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(SpillStoreTest, FindsFinishedFilesAndRemovesUnfinishedOnes) {
    for (const char* name :
         {"slab-3-12.spill", "slab-0-1.spill", "slab-3-13.spill.new", "slab-3.spill", "slab-x-1.spill", "notes.txt"})
        std::ofstream(folder_ + "/" + name) << "x";
    std::vector<std::pair<std::uint32_t, std::uint64_t>> found;
    for (const SpilledFile& file : store_.left_there()) found.emplace_back(file.slab, file.generation);
    EXPECT_THAT(found, testing::UnorderedElementsAre(std::pair(3U, 12U), std::pair(0U, 1U)));
    EXPECT_FALSE(std::filesystem::exists(folder_ + "/slab-3-13.spill.new"));
    EXPECT_TRUE(std::filesystem::exists(folder_ + "/notes.txt")) << "foreign files stay";
}

TEST_F(SpillStoreTest, IgnoresATruncatedFile) {
    store_.write(3, 12, bytes_);
    const SpilledFile file = outcome().file;
    std::filesystem::resize_file(file.path, 99'999);
    std::vector<std::byte> back(bytes_.size());
    store_.read(file, 1, back);
    EXPECT_THAT(outcome().error, HasSubstr("ends too soon"));
}

TEST_F(SpillStoreTest, ReportsAtTheStartThatItsFolderCannotBeMade) {
    std::ofstream(folder_ + "/file") << "x";
    EXPECT_THAT(test::error_of<SystemError>([&] { const SpillStore other(folder_ + "/file/spill", [] {}); },
                                            ErrorKind::CannotWrite),
                HasSubstr(folder_ + "/file/spill"));
}

}  // namespace
}  // namespace offramp
