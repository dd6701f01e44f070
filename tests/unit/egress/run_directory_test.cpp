#include "producer/egress/run_directory_lock.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "common/base/error.hpp"
#include "tests/contract/processors/processor_world.hpp"
#include "tests/support/error_of.hpp"

namespace offramp {
namespace {

mode_t mode_of(const std::string& path) {
    struct stat found {};
    EXPECT_EQ(::stat(path.c_str(), &found), 0);
    return found.st_mode & 07777;
}

struct RunDirectoryTest : ::testing::Test {
    std::string in(const std::string& name) const { return folder.path() + "/" + name; }
    void put(const std::string& name) const { std::ofstream(in(name)) << "users"; }

    test::ScratchFolder folder;
};

TEST_F(RunDirectoryTest, RefusesAFolderOfTheUserAndKeepsIt) {
    std::filesystem::create_directories(in("users/live/spill"));
    for (const char* name : {"users/status.json", "users/dropped.jsonl", "users/live/endpoint"}) put(name);
    ::chmod(in("users").c_str(), 01777);
    EXPECT_THAT(test::error_of<ConfigError>([&] { const RunDirectory refused(in("users"), false, RunStart::Begun); }),
                testing::HasSubstr("is not a run's directory"));
    for (const char* name : {"users/status.json", "users/dropped.jsonl", "users/live/endpoint", "users/live/spill"})
        EXPECT_TRUE(std::filesystem::exists(in(name))) << name;
    EXPECT_FALSE(std::filesystem::exists(in("users/live/producer.lock")));
    EXPECT_EQ(mode_of(in("users")), 01777U);
}

TEST_F(RunDirectoryTest, CreatesItForItsUserAlone) {
    { const RunDirectory made(in("new/one"), false, RunStart::Begun); }
    for (const char* name : {"new/one", "new/one/live"}) EXPECT_EQ(mode_of(in(name)), 0700U) << name;
    { const RunDirectory made(in("another"), true, RunStart::Begun); }
    for (const char* name : {"another", "another/live"}) EXPECT_EQ(mode_of(in(name)), 0710U) << name;
}

TEST_F(RunDirectoryTest, AcceptsAnEmptyFolderAndAnEarlierRuns) {
    std::filesystem::create_directory(in("empty"));
    ::chmod(in("empty").c_str(), 0750);
    { const RunDirectory taken(in("empty"), false, RunStart::Begun); }
    { const RunDirectory again(in("empty"), false, RunStart::Begun); }
    EXPECT_EQ(mode_of(in("empty")), 0750U);
    std::filesystem::create_directories(in("launched/live"));
    put("launched/live/launcher.lock");
    put("launched/config.json");
    EXPECT_NO_THROW(RunDirectory(in("launched"), false, RunStart::Begun));
}

TEST_F(RunDirectoryTest, KeepsAnEarlierRunsReportUntilTheRunStarts) {
    { const RunDirectory made(in("run"), false, RunStart::Begun); }
    const std::vector<std::string> reports{"run/status.json", "run/summary.json", "run/dropped.jsonl"};
    for (const std::string& name : reports) put(name);
    {
        const RunDirectory taken_over(in("run"), false, RunStart::Recovered);
        taken_over.begin();
    }
    for (const std::string& name : reports) EXPECT_TRUE(std::filesystem::exists(in(name))) << name;
    const RunDirectory again(in("run"), false, RunStart::Begun);
    for (const std::string& name : reports)
        EXPECT_TRUE(std::filesystem::exists(in(name))) << name << ": the new run may still be refused";
    again.begin();
    for (const std::string& name : reports)
        EXPECT_FALSE(std::filesystem::exists(in(name))) << name << " was the earlier run's";
}

TEST_F(RunDirectoryTest, DoesNotTakeALinkForALock) {
    std::filesystem::create_directories(in("trap/live"));
    std::filesystem::create_symlink(in("elsewhere"), in("trap/live/producer.lock"));
    EXPECT_THROW(RunDirectory(in("trap"), false, RunStart::Begun), ConfigError);
    EXPECT_FALSE(std::filesystem::exists(in("elsewhere")));
}

}  // namespace
}  // namespace offramp
