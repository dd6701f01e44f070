// Which folders are flushed, and what follows if that fails: observed by this program's own fsync().

#include <gtest/gtest.h>
#include <linux/limits.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "consumer/sinks/files/atomic_file.hpp"
#include "consumer/sinks/segments/segment_file.hpp"
#include "consumer/sinks/segments/segment_merge.hpp"
#include "consumer/sinks/sqlite/output_database.hpp"
#include "tests/contract/processors/processor_world.hpp"

namespace {

using FlushAnswer = std::function<int(const std::string& folder)>;  // errno, or 0

std::mutex answer_mutex;
FlushAnswer answer;  // to the flush of a folder

int outcome_of(int fd) {
    const std::lock_guard lock(answer_mutex);
    struct stat status {};
    if (!answer || ::fstat(fd, &status) != 0 || !S_ISDIR(status.st_mode)) return 0;
    std::array<char, PATH_MAX> path{};
    const std::string link = "/proc/self/fd/" + std::to_string(fd);
    return ::readlink(link.c_str(), path.data(), path.size() - 1) > 0 ? answer(path.data()) : 0;
}

}  // namespace

extern "C" int fsync(int fd) {
    if (const int problem = outcome_of(fd); problem != 0) {
        errno = problem;
        return -1;
    }
    return static_cast<int>(::syscall(SYS_fsync, fd));
}

namespace offramp {
namespace {

namespace fs = std::filesystem;

constexpr char kSchema[] = "CREATE TABLE rows (item INTEGER PRIMARY KEY)";

class Answering {
  public:
    explicit Answering(FlushAnswer next) {
        const std::lock_guard lock(answer_mutex);
        answer = std::move(next);
    }
    Answering(const Answering&) = delete;
    Answering& operator=(const Answering&) = delete;
    ~Answering() {
        const std::lock_guard lock(answer_mutex);
        answer = nullptr;
    }
};

struct FolderFlush : ::testing::Test {
    test::ScratchFolder scratch;
    std::string top = fs::canonical(scratch.path()).string();
    std::string output = top + "/output";

    // The folders that `work` flushes.
    static std::vector<std::string> flushed_by(const std::function<void()>& work) {
        std::vector<std::string> flushed;
        const Answering noting([&](const std::string& folder) {
            flushed.push_back(folder);
            return 0;
        });
        work();
        return flushed;
    }
    static bool has(const std::vector<std::string>& folders, const std::string& folder) {
        return std::ranges::find(folders, folder) != folders.end();
    }
    void write() const { write_atomically(output + "/a/file", {}, Durability::PowerCut); }
    void deliver() const {
        SegmentFile segment(output, "series");
        segment.begin(0, 0);
        segment.add_line(0, {"x"});
        segment.commit();
    }
    void merge() const { merge_segments(output, "series", output + "/series.tsv", Durability::PowerCut); }
};

TEST_F(FolderFlush, AcceptsAFileSystemThatCannotFlushAFolder) {
    const Answering refusing([](const std::string&) { return EINVAL; });
    EXPECT_NO_THROW(write());
    deliver();
    EXPECT_NO_THROW(merge());
    EXPECT_NO_THROW(flush_folder(output));
    EXPECT_TRUE(fs::exists(output + "/series.tsv"));
}

TEST_F(FolderFlush, FailsIfTheFolderOfTheNameIsReadOnly) {
    fs::create_directories(output);
    const Answering refusing([&](const std::string& folder) { return folder == output ? EROFS : 0; });
    EXPECT_THROW(flush_folder(output), SystemError);
}

TEST_F(FolderFlush, AcceptsAReadOnlyFolderAboveTheNames) {
    const Answering refusing([&](const std::string& folder) { return folder == top ? EROFS : 0; });
    EXPECT_NO_THROW(write());
}

// A new folder may have the inode number of a removed one, which counts as flushed: so several are tried.
TEST_F(FolderFlush, AFailedFlushAboveIsRepeatedByTheNextName) {
    const auto fails = [this] {
        const Answering refusing([this](const std::string& folder) { return folder == top ? EIO : 0; });
        try {
            write();
        } catch (const SystemError&) {
            return true;
        }
        return false;
    };
    for (int next = 0; next < 1000 && !fails(); ++next) output = top + "/" + std::to_string(next);
    EXPECT_TRUE(fails());
    EXPECT_TRUE(has(flushed_by([&] { write(); }), top));
    EXPECT_FALSE(has(flushed_by([&] { write(); }), top));
}

TEST_F(FolderFlush, ARepeatedMergeFlushesWhatADeadOneRemoved) {
    deliver();
    merge();
    EXPECT_TRUE(has(flushed_by([&] { merge(); }), output));
}

TEST_F(FolderFlush, AMergeWithoutAnyFolderEnds) {
    const fs::path before = fs::current_path();
    fs::current_path(top);
    EXPECT_NO_THROW(merge_segments("gone/output", "series", "gone.tsv", Durability::PowerCut));
    std::ofstream("gone.tsv") << "";
    EXPECT_TRUE(
        has(flushed_by([] { merge_segments("gone/output", "series", "gone.tsv", Durability::PowerCut); }), top));
    fs::current_path(before);
}

TEST_F(FolderFlush, AMovedDatabaseIsThereAfterAPowerCut) {
    const std::string next = top + "/next";
    fs::create_directories(output);
    OutputDatabase(next, "rows", kSchema, Durability::PowerCut).transact([](SqliteDatabase&) {});
    finish_database(next, "rows");
    EXPECT_TRUE(has(flushed_by([&] { EXPECT_TRUE(put_database_in_place(next, output, "rows")); }), output));
}

TEST_F(FolderFlush, ADatabaseWhoseMakerDiedIsFlushedByTheNextConsumer) {
    OutputDatabase(output, "rows", kSchema, Durability::Process).transact([](SqliteDatabase&) {});
    EXPECT_TRUE(has(flushed_by([&] { OutputDatabase(output, "rows", kSchema, Durability::PowerCut); }), output));
}

}  // namespace
}  // namespace offramp
