// A rewritten file that cannot be recomputed is flushed before it replaces the old one: otherwise a power cut may leave
// an empty file of that name. Observed by this program's own fsync() and rename().

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/limits.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "consumer/processors/results/outputs_of_run.hpp"
#include "consumer/sinks/segments/segment_file.hpp"
#include "producer/runner/checkpoint/checkpoint_writer.hpp"
#include "producer/runner/checkpoint/items_file.hpp"
#include "producer/runner/checkpoint/run_checkpoint.hpp"
#include "tests/contract/processors/processor_world.hpp"
#include "tests/unit/checkpoint/made_up_items.hpp"

namespace {

std::mutex steps_mutex;
std::vector<std::string> steps;  // "flush FILE", "rename FILE": names without their folders
std::string to_fail;             // the next flush of this file or folder fails

std::string name_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }

void note_step(const std::string& what, const std::string& path) {
    const std::lock_guard lock(steps_mutex);
    steps.push_back(what + " " + name_of(path));
}

}  // namespace

extern "C" int fsync(int fd) {
    std::array<char, PATH_MAX> path{};
    const std::string link = "/proc/self/fd/" + std::to_string(fd);
    if (::readlink(link.c_str(), path.data(), path.size() - 1) > 0) note_step("flush", path.data());
    if (const std::lock_guard lock(steps_mutex); !to_fail.empty() && name_of(path.data()) == to_fail) {
        to_fail.clear();
        errno = EIO;
        return -1;
    }
    return static_cast<int>(::syscall(SYS_fsync, fd));
}

extern "C" int rename(const char* from, const char* to) noexcept {
    note_step("rename", from);
    return static_cast<int>(::syscall(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to));
}

namespace offramp {
namespace {

// The number of files that `work` put in place; each was flushed before. `earlier`: a step before `work`.
std::size_t renamed_and_flushed(const std::function<void()>& work, const std::string& earlier = {}) {
    {
        const std::lock_guard lock(steps_mutex);
        EXPECT_TRUE(earlier.empty() || std::ranges::find(steps, earlier) != steps.end()) << earlier;
        steps.assign(earlier.empty() ? 0 : 1, earlier);
    }
    work();
    const std::lock_guard lock(steps_mutex);
    std::size_t renamed = 0;
    for (auto step = steps.begin(); step != steps.end(); ++step) {
        if (!step->starts_with("rename ")) continue;
        ++renamed;
        EXPECT_NE(std::find(steps.begin(), step, "flush " + step->substr(sizeof "rename")), step) << *step;
    }
    return renamed;
}

Checkpoint checkpoint_of(const std::string& run, ItemRanges done = {}) {
    return {.run_id = run,
            .pid = 42,
            .before = 0,
            .identity = {{{"items", "1000000"}}},
            .done = std::move(done),
            .ignored_lines = 0};
}

struct FlushedFiles : ::testing::Test {
    test::ScratchFolder folder;
    std::string path = folder.path() + "/" + kCheckpointName;
};

TEST_F(FlushedFiles, IncludeARewrittenCheckpoint) {
    const auto run = [&](const std::string& id, std::uint64_t items) {
        CheckpointWriter writer(path, checkpoint_of(id), Durability::Process, [](const std::exception_ptr&) {});
        writer.begin();
        std::vector<ItemRange> scattered;
        for (std::uint64_t item = 0; item < items; item += 2) scattered.push_back({item, item + 1});
        writer.note(scattered);
        writer.close();
        writer.end();
    };
    EXPECT_EQ(renamed_and_flushed([&] { run("a", 2); }), 1U);
    EXPECT_EQ(renamed_and_flushed([&] { run("b", 2); }), 1U) << "a run that continues rewrites it";
    EXPECT_GE(renamed_and_flushed([&] { run("c", 400'000); }), 2U) << "it is rewritten at twice its size";
}

// The checkpoint vouches for the items file, which therefore comes first.
TEST_F(FlushedFiles, IncludeTheItemsFile) {
    for (const Durability durability : {Durability::Process, Durability::PowerCut}) {
        auto items = new_items_file(folder.path() + "/" + kItemsFileName, test::write_failure);
        items->flush();
        CheckpointWriter writer(
            path, checkpoint_of("a"), durability, [](const std::exception_ptr&) {}, false, [] {}, std::move(items));
        EXPECT_EQ(renamed_and_flushed([&] { writer.begin(); }, "flush .offramp-items.new"), 2U);
        const auto at = [](const std::string& step) { return std::find(steps.begin(), steps.end(), step); };
        const auto items_named = at("rename .offramp-items.new"), named = at("rename .offramp-checkpoint.new");
        EXPECT_LT(items_named, named);
        const auto folder_flushed = std::find(items_named, named, "flush " + name_of(folder.path()));
        EXPECT_EQ(folder_flushed != named, durability == Durability::PowerCut);
    }
}

TEST_F(FlushedFiles, IncludeTheItemsFileOfARun) {
    RunConfig config;
    config.source = "synthetic";
    config.model = "copy";
    config.processor = "checksum";
    config.batch = 4;
    config.run_id = "a";
    config.output = folder.path();
    const auto run = [&](const std::vector<std::string>& keys, EarlierWork earlier) {
        const test::Items items(keys);
        RunCheckpoint(config, items, earlier, [](const std::exception_ptr&) { ADD_FAILURE(); }).begin({{0, 1}});
    };
    EXPECT_EQ(renamed_and_flushed([&] { run({"a"}, EarlierWork::DoneAgain); }), 2U);
    EXPECT_EQ(renamed_and_flushed([&] { run({"a", "b"}, EarlierWork::Resumed); }), 2U) << "the input grew";
    EXPECT_EQ(renamed_and_flushed([&] { run({"a", "b"}, EarlierWork::Resumed); }), 1U) << "it stays";
}

// The file has its name by then.
TEST_F(FlushedFiles, MayFailOnceForTheItemsFilesName) {
    auto items = new_items_file(folder.path() + "/" + kItemsFileName, test::write_failure);
    items->flush();
    int failures = 0;
    CheckpointWriter writer(
        path, checkpoint_of("a"), Durability::PowerCut, [&](const std::exception_ptr&) { ++failures; }, false, [] {},
        std::move(items));
    {
        const std::lock_guard lock(steps_mutex);
        to_fail = name_of(folder.path());
    }
    EXPECT_THROW(writer.begin(), SystemError);
    const ItemRange done{0, 1};
    writer.note(std::span(&done, 1));
    EXPECT_THROW(writer.close(), SystemError);
    EXPECT_EQ(failures, 1);
    EXPECT_TRUE(read_checkpoint(path)->done.contains(0)) << "it is written once that is possible again";
}

TEST_F(FlushedFiles, IncludeFilesThatSegmentsAreMergedInto) {
    RunConfig config;
    config.processor = "checksum";
    config.output = folder.path();
    for (std::uint64_t item = 0; item < 2; ++item) {
        SegmentFile segment(folder.path(), "checksum");
        segment.begin(0, static_cast<std::uint32_t>(item));
        segment.add_line(item, {"a", "b"});
        segment.commit();
        EXPECT_EQ(renamed_and_flushed([&] { finish_run(config); }), 1U) << "segments are removed afterwards";
    }
}

}  // namespace
}  // namespace offramp
