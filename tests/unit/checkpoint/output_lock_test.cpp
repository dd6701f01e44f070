#include "producer/runner/checkpoint/output_lock.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>

#include "common/base/error.hpp"
#include "tests/contract/processors/processor_world.hpp"

namespace offramp {
namespace {

using test::ScratchFolder;

TEST(OutputLock, KeepsASecondRunOutAndNamesTheFirst) {
    const ScratchFolder folder;
    std::optional<OutputLock> first(std::in_place, folder.path(), "first");
    try {
        const OutputLock second(folder.path(), "second");
        FAIL();
    } catch (const Error& problem) {
        EXPECT_EQ(problem.kind(), ErrorKind::RunInUse);
        const std::string text = problem.what();
        EXPECT_NE(text.find("run first"), std::string::npos) << text;
        EXPECT_NE(text.find(std::to_string(::getpid())), std::string::npos) << text;
        EXPECT_NE(text.find(folder.path()), std::string::npos) << text;
    }
    first.reset();
    { const OutputLock second(folder.path(), "second"); }
    EXPECT_TRUE(test::read_tree(folder.path()).empty());
}

TEST(OutputLock, WhatTheLaunchScriptHoldsForThisRunIsNotTakenAgain) {
    const ScratchFolder folder;
    const std::string path = folder.path() + "/" + OutputLock::kName;
    std::ofstream(path) << R"({"run": "mine", "pid": 7})";
    const UniqueFd launcher(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    ASSERT_EQ(::flock(launcher.get(), LOCK_EX | LOCK_NB), 0);
    { const OutputLock lock(folder.path(), "mine"); }
    EXPECT_TRUE(std::filesystem::exists(path)) << "the launch script removes it";
    EXPECT_THROW(OutputLock(folder.path(), "another"), Error);
}

TEST(OutputLock, AFileThatADeadRunLeftIsNoObstacle) {
    const ScratchFolder folder;
    const std::string path = folder.path() + "/" + OutputLock::kName;
    for (const char* text :
         {R"({"run": "dead", "pid": 7} and a tail that is longer than what comes now, by far, by far, by far)", "",
          "[1", "[]"}) {
        std::ofstream(path) << text;
        const OutputLock lock(folder.path(), "mine");
        EXPECT_THROW(OutputLock(folder.path(), "another"), Error);
    }
}

TEST(OutputLock, WhatSomebodyLaidThereIsNotTaken) {
    const ScratchFolder folder;
    const std::string path = folder.path() + "/" + OutputLock::kName;
    const std::string other = folder.path() + "/other";
    std::ofstream(other) << "mine";
    std::filesystem::create_hard_link(other, path);
    EXPECT_THROW(OutputLock(folder.path(), "run"), Error);
    EXPECT_EQ(std::filesystem::file_size(other), 4U);
    std::filesystem::remove(path);
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    EXPECT_THROW(OutputLock(folder.path(), "run"), Error);
}

}  // namespace
}  // namespace offramp
