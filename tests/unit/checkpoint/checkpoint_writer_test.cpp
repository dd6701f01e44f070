#include "producer/runner/checkpoint/checkpoint_writer.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "common/base/error.hpp"
#include "tests/contract/processors/processor_world.hpp"

namespace offramp {
namespace {

using test::ScratchFolder;

Checkpoint of_run(std::uint64_t items, ItemRanges done = {}) {
    return {.run_id = "the-run",
            .pid = 42,
            .before = 7,
            .identity = {{{"items", std::to_string(items)}}},
            .done = std::move(done),
            .ignored_lines = 0};
}

void note(CheckpointWriter& writer, ItemRange range) { writer.note(std::span(&range, 1)); }

const auto kNoFailure = [](const std::exception_ptr&) { ADD_FAILURE(); };

struct CheckpointWriterTest : ::testing::TestWithParam<Durability> {
    ScratchFolder folder;
    std::string path = folder.path() + "/.offramp-checkpoint";
};
INSTANTIATE_TEST_SUITE_P(, CheckpointWriterTest, ::testing::Values(Durability::Process, Durability::PowerCut),
                         [](const auto& test) { return test.param == Durability::Process ? "Process" : "PowerCut"; });

TEST_P(CheckpointWriterTest, KeepsItemsNotedByAnyThread) {
    CheckpointWriter writer(path, of_run(4000), GetParam(), kNoFailure);
    std::vector<std::thread> threads;
    for (std::uint64_t thread = 0; thread < 4; ++thread)
        threads.emplace_back([&writer, thread] {
            for (std::uint64_t i = 0; i < 500; ++i) note(writer, {thread * 1000 + i * 2, thread * 1000 + i * 2 + 1});
        });
    for (std::thread& thread : threads) thread.join();
    writer.close();
    const Checkpoint checkpoint = *read_checkpoint(path);
    EXPECT_EQ(checkpoint.done.items(), 2000U);
    EXPECT_EQ(checkpoint.done.ranges(), 2000U);
    EXPECT_EQ(checkpoint.ignored_lines, 0U);
    EXPECT_EQ(test::read_tree(folder.path()).size(), 1U);
}

TEST_P(CheckpointWriterTest, KeepsTheEarlierCheckpointUntilAFirstResult) {
    std::ofstream(path) << "of another run";
    ItemRanges before;
    before.add({3, 9});
    const auto text = [this] {
        std::ifstream file(path);
        return std::string(std::istreambuf_iterator<char>(file), {});
    };
    for (int i = 0; i < 2; ++i) {
        CheckpointWriter writer(path, of_run(100, before), GetParam(), kNoFailure);
        EXPECT_EQ(text(), "of another run");
        writer.close();
        EXPECT_EQ(text(), "of another run") << "the run failed before its first result";
    }
    CheckpointWriter writer(path, of_run(100, before), GetParam(), kNoFailure);
    for (int i = 0; i < 2; ++i) writer.begin();
    EXPECT_EQ(read_checkpoint(path)->done, before);
    EXPECT_EQ(read_checkpoint(path)->run_id, "the-run");
    EXPECT_FALSE(read_checkpoint(path)->ended);
}

TEST_P(CheckpointWriterTest, TheLastLineSaysThatTheRunEnded) {
    for (const bool begun : {true, false}) {
        std::filesystem::remove(path);
        CheckpointWriter writer(path, of_run(100), GetParam(), kNoFailure);
        if (begun) note(writer, {0, 100});
        writer.close();
        EXPECT_FALSE(begun && read_checkpoint(path)->ended);
        writer.end();
        EXPECT_TRUE(read_checkpoint(path)->ended);
        EXPECT_EQ(read_checkpoint(path)->ignored_lines, 0U);
        EXPECT_EQ(read_checkpoint(path)->done.items(), begun ? 100U : 0U);
    }
}

TEST(CheckpointWriter, AKillLosesOnlyUnwrittenItems) {
    const ScratchFolder folder;
    const std::string path = folder.path() + "/.offramp-checkpoint";
    const pid_t child = ::fork();
    if (child == 0) {
        constexpr std::uint64_t kItems = 1'000'000;
        CheckpointWriter writer(path, of_run(kItems), Durability::Process, [](const std::exception_ptr&) {});
        for (std::uint64_t i = 0;; i = (i + 2) % kItems) {
            note(writer, {i, i + 1});
            if (i % 1024 == 0 && std::filesystem::exists(path) && read_checkpoint(path)->done.items() > 3000)
                ::kill(::getpid(), SIGKILL);
        }
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
    const Checkpoint checkpoint = *read_checkpoint(path);
    EXPECT_GT(checkpoint.done.items(), 3000U);
    EXPECT_LE(checkpoint.ignored_lines, 1U);
    for (const ItemRange& range : checkpoint.done.list()) EXPECT_EQ(range.end, range.begin + 1);
}

// Each item is noted a dozen times, in an order that leaves many gaps.
TEST(CheckpointWriter, ItsSizeDependsOnGapsNotOnTheRun) {
    constexpr std::uint64_t kItems = 100'003;  // a prime
    const ScratchFolder folder;
    const std::string path = folder.path() + "/.offramp-checkpoint";
    CheckpointWriter writer(path, of_run(kItems), Durability::Process, kNoFailure);
    std::size_t bytes_noted = 0;
    for (std::uint64_t i = 0; i < 12 * kItems; ++i) {
        const std::uint64_t item = i * 7919 % kItems;
        note(writer, {item, item + 1});
        bytes_noted += std::string("[00000,00000],").size();
    }
    writer.close();
    EXPECT_EQ(read_checkpoint(path)->done.list(), (std::vector<ItemRange>{{0, kItems}}));
    EXPECT_LT(std::filesystem::file_size(path), bytes_noted / 3);
}

TEST(CheckpointWriter, ReportsAFileSizeLimitOnceAndKeepsWrittenItems) {
    const ScratchFolder folder;
    const std::string path = folder.path() + "/.offramp-checkpoint";
    const pid_t child = ::fork();
    if (child == 0) {
        std::signal(SIGXFSZ, SIG_IGN);
        int reports = 0;
        bool clear = false;
        CheckpointWriter writer(path, of_run(1'000'000), Durability::Process,
                                [&reports](const std::exception_ptr&) { ++reports; });
        note(writer, {0, 10});
        while (!std::filesystem::exists(path) || read_checkpoint(path)->done.empty()) std::this_thread::yield();
        const rlimit limit{400, 400};
        ::setrlimit(RLIMIT_FSIZE, &limit);
        for (std::uint64_t i = 100; i < 500; i += 2) note(writer, {i, i + 1});
        try {
            writer.close();
        } catch (const SystemError& problem) {
            const std::string what = problem.what();
            clear = problem.kind() == ErrorKind::CannotWrite && what.find(path) != std::string::npos &&
                    what.find("ulimit -f") != std::string::npos;
        }
        ::_exit(clear && reports == 1 ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    const Checkpoint checkpoint = *read_checkpoint(path);
    EXPECT_TRUE(checkpoint.done.contains(9));
    EXPECT_LE(checkpoint.ignored_lines, 1U);
}

TEST(CheckpointWriter, ReportsAnUnwritableFolder) {
    const ScratchFolder folder;
    const auto begins = [&](const std::string& path) {
        CheckpointWriter(path, of_run(1), Durability::Process, [](const std::exception_ptr&) {}).begin();
    };
    EXPECT_THROW(begins(folder.path() + "/none/.offramp-checkpoint"), SystemError);
    std::filesystem::create_directories(folder.path() + "/.offramp-checkpoint.new/in the way");
    EXPECT_THROW(begins(folder.path() + "/.offramp-checkpoint"), SystemError);
    std::filesystem::remove_all(folder.path() + "/.offramp-checkpoint.new");
    // Does not follow a link: the output folder may belong to another user.
    std::ofstream(folder.path() + "/victim") << "victim";
    std::filesystem::create_symlink(folder.path() + "/victim", folder.path() + "/.offramp-checkpoint.new");
    begins(folder.path() + "/.offramp-checkpoint");
    std::ifstream victim(folder.path() + "/victim");
    std::stringstream text;
    text << victim.rdbuf();
    EXPECT_EQ(text.str(), "victim");
}

}  // namespace
}  // namespace offramp
