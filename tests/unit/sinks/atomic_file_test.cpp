#include "consumer/sinks/files/atomic_file.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string_view>

#include "common/base/error.hpp"
#include "consumer/sinks/files/held_output.hpp"
#include "tests/contract/processors/processor_world.hpp"

namespace offramp {
namespace {

using test::read_tree;
using test::ScratchFolder;
using test::Tree;

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

TEST(AtomicFile, AppearsCompleteWithItsFolders) {
    const ScratchFolder folder;
    {
        AtomicFile file(folder.path() + "/a/b/file");
        file.write(bytes_of("one "));
        file.write(bytes_of("two"));
        EXPECT_FALSE(std::filesystem::exists(folder.path() + "/a/b/file"));
        file.commit();
    }
    EXPECT_EQ(read_tree(folder.path()), (Tree{{"a", ""}, {"a/b", ""}, {"a/b/file", "one two"}}));
}

TEST(AtomicFile, ReplacesAnExistingFile) {
    const ScratchFolder folder;
    write_atomically(folder.path() + "/file", bytes_of("first, and longer"));
    write_atomically(folder.path() + "/file", bytes_of("second"));
    EXPECT_EQ(read_tree(folder.path()), (Tree{{"file", "second"}}));
}

TEST(AtomicFile, ADurableFileIsWrittenInNewFoldersToo) {
    const ScratchFolder folder;
    write_atomically(folder.path() + "/a/b/c/file", bytes_of("text"), Durability::PowerCut);
    write_atomically(folder.path() + "/a/b/c/file", bytes_of("again"), Durability::PowerCut);
    EXPECT_EQ(read_tree(folder.path()), (Tree{{"a", ""}, {"a/b", ""}, {"a/b/c", ""}, {"a/b/c/file", "again"}}));
}

TEST(AtomicFile, LeavesNothingUncommitted) {
    const ScratchFolder folder;
    { AtomicFile(folder.path() + "/file").write(bytes_of("half")); }
    EXPECT_EQ(read_tree(folder.path()), Tree{});
}

TEST(AtomicFile, RefusesAFolderInItsPlace) {
    const ScratchFolder folder;
    std::filesystem::create_directories(folder.path() + "/file/inner");
    try {
        write_atomically(folder.path() + "/file", bytes_of("text"));
        FAIL();
    } catch (const SystemError& error) {
        EXPECT_EQ(error.kind(), ErrorKind::CannotWrite);
        EXPECT_EQ(error.errno_value(), EISDIR);
        EXPECT_THAT(error.what(), ::testing::HasSubstr(folder.path() + "/file"));
    }
}

TEST(AtomicFile, RefusesAFileInPlaceOfItsFolder) {
    const ScratchFolder folder;
    write_atomically(folder.path() + "/file", bytes_of("text"));
    try {
        write_atomically(folder.path() + "/file/inner", bytes_of("text"));
        FAIL();
    } catch (const SystemError& error) {
        EXPECT_EQ(error.kind(), ErrorKind::CannotWrite);
        EXPECT_EQ(error.errno_value(), ENOTDIR);
    }
}

// /dev/full cannot be replaced by a rename; a limit on file sizes makes a write fail midway, too.
TEST(AtomicFile, AFailedWriteNamesThePathAndLeavesNothing) {
    const ScratchFolder folder;
    const pid_t child = ::fork();
    if (child == 0) {
        std::signal(SIGXFSZ, SIG_IGN);
        const rlimit limit{4096, 4096};
        ::setrlimit(RLIMIT_FSIZE, &limit);
        try {
            write_atomically(folder.path() + "/file", bytes_of(std::string(10'000, 'x')));
            ::_exit(1);
        } catch (const SystemError& error) {
            const bool clear = error.errno_value() == EFBIG && error.kind() == ErrorKind::CannotWrite &&
                               std::string_view(error.what()).find(folder.path() + "/file") != std::string_view::npos;
            ::_exit(clear ? 0 : 2);
        }
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    EXPECT_EQ(read_tree(folder.path()), Tree{});
}

TEST(RequireWritableFolder, CreatesTheFolderAndLeavesNoFile) {
    const ScratchFolder folder;
    require_writable_folder(folder.path() + "/a/b");
    EXPECT_EQ(read_tree(folder.path()), (Tree{{"a", ""}, {"a/b", ""}}));
}

TEST(RequireWritableFolder, RefusesAFileInItsPlace) {
    const ScratchFolder folder;
    write_atomically(folder.path() + "/file", bytes_of("text"));
    EXPECT_THROW(require_writable_folder(folder.path() + "/file"), SystemError);
    EXPECT_THROW(require_writable_folder(folder.path() + "/file/below"), SystemError);
}

TEST(RemoveStaleTemporaries, RemovesOnlyThoseOfDeadProcesses) {
    const ScratchFolder folder;
    const pid_t child = ::fork();
    if (child == 0) {
        AtomicFile first(folder.path() + "/file");
        AtomicFile second(folder.path() + "/deep/er/file");
        ::kill(::getpid(), SIGKILL);
    }
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
    AtomicFile alive(folder.path() + "/deep/alive");
    alive.write(bytes_of("at work"));
    std::ofstream(folder.path() + "/deep/.hidden") << "a user's";

    EXPECT_EQ(remove_stale_temporaries(folder.path()), 2U);
    alive.commit();
    EXPECT_EQ(read_tree(folder.path()),
              (Tree{{"deep", ""}, {"deep/er", ""}, {"deep/alive", "at work"}, {"deep/.hidden", "a user's"}}));
    EXPECT_EQ(remove_stale_temporaries(folder.path()), 0U);
}

TEST(RemoveStaleTemporaries, DoesNotFollowSymbolicLinks) {
    const ScratchFolder folder;
    const ScratchFolder other;
    const std::string leftover = other.path() + "/.offramp-tmp-1-1";
    std::ofstream(leftover) << "left";
    std::filesystem::create_directory_symlink(other.path(), folder.path() + "/link");
    std::filesystem::create_symlink(leftover, folder.path() + "/.offramp-tmp-2-2");
    EXPECT_EQ(remove_stale_temporaries(folder.path()), 0U);
    EXPECT_TRUE(std::filesystem::exists(leftover));
}

TEST(RemoveStaleTemporaries, IgnoresAMissingFolder) { EXPECT_EQ(remove_stale_temporaries("/nonexistent/offramp"), 0U); }

TEST(HeldOutput, WritesToTheHeldFolderUnderAnyName) {
    const ScratchFolder folder;
    const std::string output = folder.path() + "/output", away = folder.path() + "/away";
    std::filesystem::create_directory(output);
    HeldOutput held;
    held.hold(output, "the output folder");
    write_atomically(output + "/one/a", bytes_of("a"));
    EXPECT_NO_THROW(held.require_in_place());
    AtomicFile begun(output + "/one/b");
    begun.write(bytes_of("b"));
    std::filesystem::rename(output, away);
    std::filesystem::create_directory(output);
    begun.commit();
    write_atomically(output + "/two/c", bytes_of("c"), Durability::PowerCut);
    EXPECT_TRUE(test::read_tree(output).empty());
    EXPECT_EQ(test::read_tree(away).size(), 5U) << "three files in two folders";
    EXPECT_THROW(held.require_in_place(), Error);
    std::filesystem::remove(output);
    std::filesystem::rename(away, output);
    EXPECT_NO_THROW(held.require_in_place());
    write_atomically(folder.path() + "/elsewhere/d", bytes_of("d"));
    EXPECT_TRUE(std::filesystem::exists(folder.path() + "/elsewhere/d"));
}

TEST(HeldOutput, DoesNotRecreateAFolderThatHeldResults) {
    const ScratchFolder folder;
    const std::string output = folder.path() + "/output";
    for (const bool replaced : {false, true})
        for (const char* moved : {"/a", "/a/b"}) {
            std::filesystem::remove_all(output);
            std::filesystem::remove_all(folder.path() + "/away");
            std::filesystem::create_directory(output);
            HeldOutput held;
            held.hold(output, "the output folder");
            write_atomically(output + "/a/b/one", bytes_of("1"));
            std::filesystem::rename(output + moved, folder.path() + "/away");
            if (replaced) std::filesystem::create_directories(output + "/a/b");
            EXPECT_THROW(held.require_in_place(), Error) << moved;
            EXPECT_THROW(write_atomically(output + "/a/b/two", bytes_of("2")), Error) << moved;
            if (std::string_view(moved) == "/a") {
                EXPECT_THROW(write_atomically(output + "/a/c/three", bytes_of("3")), Error);
            }
            EXPECT_FALSE(std::filesystem::exists(output + "/a/b/two"));
            EXPECT_FALSE(std::filesystem::exists(output + "/a/c"));
            EXPECT_NO_THROW(write_atomically(output + "/new/four", bytes_of("4")));
        }
}

TEST(HeldOutput, DoesNotRecreateAFolderThatHoldsResultsOfAnotherProcess) {
    const ScratchFolder folder;
    const std::string output = folder.path() + "/output", notes = folder.path() + "/notes";
    std::filesystem::create_directory(output);
    const auto as_another_process = [&](const std::function<void()>& work) {
        HeldOutput held;
        held.hold(output, "the output folder");
        held.share_notes(notes);
        work();
        held.require_in_place();
    };
    as_another_process([&] { write_atomically(output + "/a/b/one", bytes_of("1")); });
    as_another_process([&] { write_atomically(output + "/a/two", bytes_of("2")); });
    const auto noted = std::filesystem::file_size(notes);
    as_another_process([&] {
        for (const char* name : {"/a/three", "/a/b/three"}) write_atomically(output + name, bytes_of("3"));
    });
    EXPECT_EQ(std::filesystem::file_size(notes), noted) << "a folder was noted twice";
    std::filesystem::rename(output + "/a", folder.path() + "/away");
    for (const bool replaced : {false, true}) {
        if (replaced) std::filesystem::create_directories(output + "/a/b");
        for (const char* name : {"/a/four", "/a/b/four", "/a/c/four"})
            EXPECT_THROW(as_another_process([&] { write_atomically(output + name, bytes_of("4")); }), Error) << name;
        EXPECT_EQ(std::filesystem::exists(output + "/a"), replaced) << "a folder was made in its place";
        EXPECT_FALSE(std::filesystem::exists(output + "/a/c"));
    }
    as_another_process([&] { write_atomically(output + "/new/four", bytes_of("4")); });
    std::filesystem::remove_all(output + "/a");
    std::filesystem::rename(folder.path() + "/away", output + "/a");
    as_another_process([&] { write_atomically(output + "/a/three", bytes_of("3")); });
}

TEST(HeldOutput, ReadsManyNotesAndPassesOverDamage) {
    const ScratchFolder folder;
    const std::string output = folder.path() + "/output", notes = folder.path() + "/notes";
    std::filesystem::create_directory(output);
    std::ofstream(notes) << "damaged" << '\0' << "1 x y" << '\0' << "12" << '\0' << "1 2 /elsewhere" << '\0';
    const auto folder_of = [&](int i) { return output + "/folder of results " + std::to_string(i); };
    {
        HeldOutput held;
        held.hold(output, "the output folder");
        held.share_notes(notes);
        for (int i = 0; i < 300; ++i) write_atomically(folder_of(i) + "/one", bytes_of("1"));
        held.require_in_place();
    }
    EXPECT_GT(std::filesystem::file_size(notes), 16384U) << "more than one read";
    HeldOutput held;
    held.hold(output, "the output folder");
    held.share_notes(notes);
    for (const int i : {0, 150, 299}) {
        EXPECT_NO_THROW(held.require_noted(folder_of(i)));
        std::filesystem::rename(folder_of(i), folder_of(i) + " away");
        EXPECT_THROW(held.require_noted(folder_of(i)), Error) << i;
        EXPECT_THROW(write_atomically(folder_of(i) + "/two", bytes_of("2")), Error) << i;
    }
    EXPECT_THROW(held.require_noted(output), Error);
    EXPECT_NO_THROW(held.require_noted(output + "/folder of results 1"));
}

}  // namespace
}  // namespace offramp
