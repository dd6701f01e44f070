#include "common/base/files.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/support/scratch_folder.hpp"

namespace offramp {
namespace {

namespace fs = std::filesystem;

struct WholeFileTest : ::testing::Test {
    WriteFailure failure() const {
        return [](int problem) {
            return SystemError("writing the page", problem, "Do something", ErrorKind::CannotWrite);
        };
    }

    static std::string text_of(const std::string& file) {
        std::ostringstream text;
        text << std::ifstream(file).rdbuf();
        return text.str();
    }

    static unsigned mode_of(const std::string& file) {
        struct stat status {};
        EXPECT_EQ(::stat(file.c_str(), &status), 0);
        return status.st_mode & 0777u;
    }

    test::ScratchFolder scratch;
    fs::path folder = scratch.path();
    std::string path = (folder / "page").string();
};

TEST_F(WholeFileTest, NeitherWritesToNorWaitsForItsTemporaryName) {
    const std::string other = (folder / "other").string();
    std::ofstream(other) << "other";
    const std::string temporary = path + ".new";
    for (const auto& lay :
         {+[](const std::string&from, const std::string&to) { fs::create_symlink(from, to); },
          +[](const std::string&from, const std::string&to) { fs::create_hard_link(from, to); },
          +[](const std::string&, const std::string&to) { EXPECT_EQ(::mkfifo(to.c_str(), 0600), 0); }}) {
        lay(other, temporary);
        WholeFile file(path, 0600, failure());
        file.write("new");
        file.put_in_place();
        EXPECT_EQ(text_of(path), "new");
        EXPECT_EQ(text_of(other), "other");
        EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(path)));
    }
}

TEST_F(WholeFileTest, AppearsOnlyWhenPutInPlace) {
    std::ofstream(path) << "before";
    WholeFile file(path, 0600, failure());
    file.write("one ");
    file.write("two");
    file.flush();
    EXPECT_EQ(text_of(path), "before");
    file.put_in_place();
    file.flush_name();
    EXPECT_EQ(text_of(path), "one two");
    EXPECT_EQ(mode_of(path), 0600u);
    EXPECT_FALSE(fs::exists(path + ".new"));
}

TEST_F(WholeFileTest, LeavesNothingUnlessPutInPlace) {
    { WholeFile(path, 0600, failure()).write("half"); }
    EXPECT_TRUE(fs::is_empty(folder));
}

TEST_F(WholeFileTest, OverwritesALeftoverOfADeadProcess) {
    std::ofstream(path + ".new") << "half of a longer text";
    WholeFile file(path, 0600, failure());
    file.write("whole");
    file.put_in_place();
    EXPECT_EQ(text_of(path), "whole");
}

TEST_F(WholeFileTest, ReturnsAHandleForAppending) {
    WholeFile file(path, 0600, failure());
    file.write("whole");
    const UniqueFd open = file.put_in_place();
    EXPECT_EQ(::lseek(open.get(), 0, SEEK_SET), 0);
    write_all(open.get(), std::as_bytes(std::span(" and more", 9)), failure());
    EXPECT_EQ(text_of(path), "whole and more");
}

TEST_F(WholeFileTest, HasItsModeWithAnyUmask) {
    const mode_t before = ::umask(0077);
    WholeFile masked(path + "-masked", 0644, failure());
    masked.put_in_place();
    WholeFile set(path, 0644, failure());
    set.set_mode(0644);
    set.put_in_place();
    ::umask(before);
    EXPECT_EQ(mode_of(path + "-masked"), 0600u);
    EXPECT_EQ(mode_of(path), 0644u);
}

TEST_F(WholeFileTest, ReportsFailuresInItsOwnersWords) {
    EXPECT_THROW(WholeFile(folder / "nowhere" / "page", 0600, failure()), SystemError);
    const UniqueFd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
    try {
        write_all(full.get(), std::as_bytes(std::span("bytes", 5)), failure());
        FAIL() << "there was room";
    } catch (const SystemError& problem) {
        EXPECT_EQ(problem.errno_value(), ENOSPC);
        EXPECT_NE(std::string(problem.what()).find("writing the page"), std::string::npos);
    }
    // A folder has the name: the file cannot be renamed, and no other file is left.
    fs::create_directory(path);
    {
        WholeFile file(path, 0600, failure());
        EXPECT_THROW(file.put_in_place(), SystemError);
    }
    EXPECT_FALSE(fs::exists(path + ".new"));
}

}  // namespace
}  // namespace offramp
