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

TEST(OutputLock, DoesNotTakeTheLaunchersLockAgain) {
    const ScratchFolder folder;
    const std::string path = folder.path() + "/" + OutputLock::kName;
    std::ofstream(path) << R"({"run": "mine", "pid": 7})";
    const UniqueFd launcher(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    ASSERT_EQ(::flock(launcher.get(), LOCK_EX | LOCK_NB), 0);
    { const OutputLock lock(folder.path(), "mine"); }
    EXPECT_TRUE(std::filesystem::exists(path)) << "the launcher removes it";
    EXPECT_THROW(OutputLock(folder.path(), "another"), Error);
}

TEST(OutputLock, RefusesAFolderThatReplacedTheLaunchersOne) {
    const ScratchFolder folder;
    const std::string output = folder.path() + "/output", lock = output + "/" + OutputLock::kName;
    const auto refused = [&] {
        try {
            const OutputLock taken(output, "mine", OutputShare::Lock::Required);
        } catch (const Error& problem) {
            return problem.kind() == ErrorKind::CannotWrite &&
                   std::string(problem.what()).find(output + " was moved, unmounted or replaced") != std::string::npos;
        }
        return false;
    };
    std::filesystem::create_directory(output);
    EXPECT_TRUE(refused()) << "it has no lock";
    EXPECT_FALSE(std::filesystem::exists(lock)) << "no file is created there";
    std::ofstream(lock) << R"({"run": "another", "pid": 7})";
    EXPECT_TRUE(refused());
    std::ofstream(lock) << R"({"run": "mine", "pid": 7})";
    const OutputLock taken(output, "mine", OutputShare::Lock::Required);
    EXPECT_NO_THROW(taken.require_in_place());
    std::filesystem::rename(output, folder.path() + "/away");
    EXPECT_THROW(taken.require_in_place(), Error);
    std::filesystem::create_directory(output);
    EXPECT_THROW(taken.require_in_place(), Error);
    std::filesystem::remove(output);
    std::filesystem::rename(folder.path() + "/away", output);
    EXPECT_NO_THROW(taken.require_in_place());
    std::filesystem::remove(lock);
    EXPECT_THROW(taken.require_in_place(), Error);
}

TEST(OutputLock, IsHeldUntilEveryProgramReleasesIt) {
    const ScratchFolder folder;
    std::optional<OutputLock> producer(std::in_place, folder.path(), "mine");
    const HeldFolder held(folder.path());
    std::optional<OutputShare> consumer(std::in_place, held, "mine", OutputShare::Lock::Required);
    const UniqueFd another(::open((folder.path() + "/" + OutputLock::kName).c_str(), O_RDWR | O_CLOEXEC));
    const auto is_free = [&] {
        const bool free = ::flock(another.get(), LOCK_EX | LOCK_NB) == 0;
        if (free) ::flock(another.get(), LOCK_UN);
        return free;
    };
    consumer.reset();
    EXPECT_FALSE(is_free());
    consumer.emplace(held, "mine", OutputShare::Lock::Required);
    producer.reset();
    EXPECT_FALSE(is_free()) << "a consumer that outlives its producer keeps a second run out";
    consumer.reset();
    EXPECT_TRUE(is_free());
    EXPECT_NO_THROW(OutputShare(held, "mine", OutputShare::Lock::Optional)) << "there is no lock any more";
}

TEST(OutputLock, IgnoresAFileOfADeadRun) {
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

TEST(OutputLock, DoesNotTakeAForeignFile) {
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
