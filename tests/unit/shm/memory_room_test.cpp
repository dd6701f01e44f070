#include "common/shm/shared_region.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/scratch_folder.hpp"

namespace offramp {
namespace {

namespace fs = std::filesystem;

// A made-up cgroup file system in a temporary folder.
class CgroupMemoryRoom : public ::testing::Test {
  protected:
    void write(const std::string& path, const std::string& text) {
        fs::create_directories((root_ / path).parent_path());
        std::ofstream(root_ / path) << text;
    }
    std::optional<MemoryRoom> room() {
        return cgroup_memory_room((root_ / "mount").string(), (root_ / "membership").string());
    }

    test::ScratchFolder folder_;
    fs::path root_ = folder_.path();
};

TEST_F(CgroupMemoryRoom, IsUnknownWithoutALimit) {
    EXPECT_FALSE(room());
    write("membership", "0::/a\n");
    write("mount/a/memory.max", "max\n");
    write("mount/a/memory.current", "4096\n");
    EXPECT_FALSE(room());
}

TEST_F(CgroupMemoryRoom, TakesTheTightestAncestorInVersion2) {
    write("membership", "0::/slice/job\n");
    write("mount/slice/job/memory.max", "1000000\n");
    write("mount/slice/job/memory.current", "100000\n");
    write("mount/slice/memory.max", "2000000\n");
    write("mount/slice/memory.current", "1500000\n");
    ASSERT_TRUE(room());
    EXPECT_EQ(room()->free_bytes, 500000U);
    EXPECT_EQ(room()->source, (root_ / "mount/slice/memory.max").string());
}

TEST_F(CgroupMemoryRoom, CountsTheFileCacheAsFree) {
    write("membership", "0::/\n");
    write("mount/memory.max", "1000000\n");
    write("mount/memory.current", "900000\n");
    write("mount/memory.stat", "anon 1\nshmem 500000\ninactive_file 200000\nactive_file 100000\ntotal_active_file 9\n");
    ASSERT_TRUE(room());
    EXPECT_EQ(room()->free_bytes, 400000U);
}

TEST_F(CgroupMemoryRoom, IsZeroBeyondTheLimit) {
    write("membership", "0::/\n");
    write("mount/memory.max", "1000\n");
    write("mount/memory.current", "5000\n");
    ASSERT_TRUE(room());
    EXPECT_EQ(room()->free_bytes, 0U);
}

TEST_F(CgroupMemoryRoom, IsFoundAtTheMountWithAHostPathInVersion1) {
    write("membership", "12:cpu,cpuacct:/x\n5:memory:/docker/0123abcd\n1:name=systemd:/\n");
    write("mount/memory/memory.limit_in_bytes", "3000000\n");
    write("mount/memory/memory.usage_in_bytes", "1000000\n");
    write("mount/memory/memory.stat", "active_file 5\ntotal_active_file 250000\n");
    ASSERT_TRUE(room());
    EXPECT_EQ(room()->free_bytes, 2250000U);
}

TEST_F(CgroupMemoryRoom, HasNoLimitAtTheLargestNumberInVersion1) {
    write("membership", "5:memory:/\n");
    write("mount/memory/memory.limit_in_bytes", "9223372036854771712\n");
    write("mount/memory/memory.usage_in_bytes", "1000000\n");
    EXPECT_FALSE(room());
}

TEST_F(CgroupMemoryRoom, SurvivesNonsensicalFiles) {
    write("membership", "nonsense\n:\n0::relative\n7:memory\n");
    write("mount/memory.max", "-12\n");
    write("mount/memory.current", "many\n");
    EXPECT_FALSE(room());
}

TEST(SharedMemoryRoom, EqualsTheFileSystemsRoom) {
    EXPECT_EQ(shared_memory_room().source, "/dev/shm");
    EXPECT_GT(shared_memory_room().free_bytes, 0U);
}

}  // namespace
}  // namespace offramp
