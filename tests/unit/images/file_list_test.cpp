#include "common/app/images/picture_list.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/fsuid.h>
#include <unistd.h>

#include "common/base/error.hpp"
#include "tests/unit/images/picture_files.hpp"

namespace offramp {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <typename Action>
Error error_of(Action action) {
    try {
        action();
    } catch (const Error& error) {
        return error;
    }
    ADD_FAILURE() << "no error";
    return Error(ErrorKind::None, "");
}

std::vector<std::string> names_of(const FileList& list) {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < list.names.size(); ++i) names.emplace_back(list.names[i]);
    return names;
}

TEST(FileList, WalksAFolderAndSortsBytewise) {
    const TempFolder folder;
    for (const char* name :
         {"b.jpg", "B.JPG", "a/z.png", "a.jpg", "a/deep/x.webp", "\xc3\xa4.gif", "a-b.tif", "c.jfif", "c.JPE"})
        folder.write(name, "x");
    EXPECT_THAT(names_of(list_image_files(folder.path())),
                ElementsAre("B.JPG", "a-b.tif", "a.jpg", "a/deep/x.webp", "a/z.png", "b.jpg", "c.JPE", "c.jfif",
                            "\xc3\xa4.gif"));
}

TEST(FileList, DoesNotReadAFolderWithAStoredList) {
    const TempFolder folder;
    for (const char* name : {"b.jpg", "new\nline/a.jpg"}) folder.write(name, "x");
    const std::string listed = folder.write("list", text_of_listed_files(list_image_files(folder.path())));
    folder.write("later.jpg", "x");
    const FileList list = read_listed_files(folder.path(), listed);
    EXPECT_THAT(names_of(list), ElementsAre("b.jpg", "new\nline/a.jpg"));
    EXPECT_EQ(FilePictures(read_listed_files(folder.path(), listed)).origin(0), folder / "b.jpg");
}

TEST(FileList, RefusesATruncatedList) {
    const TempFolder folder;
    for (const std::string text : {"", "2\na.jpg", "2\na.jpg\0", "x\n", "0\n"}) {
        const std::string listed = folder.write("list", text);
        EXPECT_THAT(error_of([&] { read_listed_files(folder.path(), listed); }).what(), HasSubstr("is truncated"));
    }
    EXPECT_EQ(error_of([&] { read_listed_files(folder.path(), folder / "none"); }).kind(), ErrorKind::NoInput);
    const Error failure = error_of([&] { read_listed_files(folder.path(), folder.path()); });
    EXPECT_EQ(failure.kind(), ErrorKind::NoInput);
    EXPECT_THAT(failure.what(), HasSubstr("cannot be read: Is a directory"));
}

TEST(FileList, OmitsHiddenAndOtherFiles) {
    const TempFolder folder;
    for (const char* name : {"a.jpg", ".b.jpg", ".hidden/c.jpg", "notes.txt", "jpg"}) folder.write(name, "x");
    const FileList list = list_image_files(folder.path());
    EXPECT_THAT(names_of(list), ElementsAre("a.jpg"));
    EXPECT_THAT(list.description, AllOf(HasSubstr("1 files under"), HasSubstr(folder.path().string())));
}

TEST(FileList, WalksAFolderNamedLikeAPicture) {
    const TempFolder folder;
    folder.write("x.jpg/a.jpg", "x");
    EXPECT_THAT(names_of(list_image_files(folder.path())), ElementsAre("x.jpg/a.jpg"));
}

TEST(FileList, FollowsLinksAndEndsCycles) {
    const TempFolder folder;
    const TempFolder other;
    folder.write("a/a.jpg", "x");
    other.write("b.jpg", "x");
    std::filesystem::create_directory_symlink(other.path(), folder.path() / "linked");
    std::filesystem::create_directory_symlink(folder.path(), folder.path() / "a" / "up");
    std::filesystem::create_symlink("/nowhere/at/all", folder.path() / "gone.jpg");
    EXPECT_THAT(names_of(list_image_files(folder.path())), ElementsAre("a/a.jpg", "gone.jpg", "linked/b.jpg"));
}

// 2^40 paths lead to the last of these folders.
TEST(FileList, VisitsEachFolderOnceDespiteManyLinks) {
    const TempFolder folder;
    for (int depth = 0; depth < 40; ++depth) {
        const auto here = folder.path() / "in" / std::to_string(depth);
        folder.write("in/" + std::to_string(depth) + "/a.jpg", "x");
        for (const char* link : {"x", "y"})
            std::filesystem::create_directory_symlink("../" + std::to_string(depth + 1), here / link);
    }
    folder.write("in/40/a.jpg", "x");
    EXPECT_EQ(list_image_files(folder / "in").names.size(), 41U);
    const FileList from_first = list_image_files(folder / "in/0");
    ASSERT_EQ(from_first.names.size(), 41U);
    EXPECT_EQ(from_first.names[1], "x/a.jpg") << "the first of two links by name";
}

TEST(FileList, AFolderKeepsItsNameThoughALinkComesFirst) {
    const TempFolder folder;
    folder.write("b/a.jpg", "x");
    std::filesystem::create_directory_symlink("b", folder.path() / "a");
    EXPECT_THAT(names_of(list_image_files(folder.path())), ElementsAre("b/a.jpg"));
}

TEST(FileList, DoesNotWaitForAnUnneededRead) {
    const TempFolder folder;
    folder.write("b/a.jpg", "x");
    int asked = 0;
    const auto stop = [&] {
        if (++asked == 2) throw Error(ErrorKind::Interrupted, "stopped");
    };
    EXPECT_EQ(error_of([&] { list_image_files(folder.path(), stop); }).kind(), ErrorKind::Interrupted);
}

TEST(FileList, ListsAFolderThatCannotBeRead) {
    const TempFolder folder;
    folder.write("a.jpg", "x");
    folder.write("locked/b.jpg", "x");
    std::filesystem::permissions(folder.path() / "locked", std::filesystem::perms::none);
    const auto user = static_cast<uid_t>(::setfsuid(65534));  // only this thread, and only as root
    const FileList list = list_image_files(folder.path());
    ::setfsuid(user);
    std::filesystem::permissions(folder.path() / "locked", std::filesystem::perms(0755));
    EXPECT_THAT(names_of(list), ElementsAre("a.jpg", "locked"));
}

// Both kinds of list, longer than what is read and parsed at a time, with lines that are longer, too.
TEST(FileList, ReadsALongListAsAShortOne) {
    const TempFolder folder;
    std::vector<std::string> names;
    std::string lines = "# first\n", listed;
    for (std::size_t i = 0; lines.size() < (70U << 20); ++i) {
        const std::size_t longer = i == 100'000 ? 40U << 20 : i % 10'000 == 5 ? 1U << 20 : i % 91;
        names.push_back(std::to_string(i) + std::string(longer, static_cast<char>('a' + i % 26)));
        lines += names.back() + (i % 3 == 0 ? "\r\n" : "\n") + (i % 7 == 0 ? "\n# " + names.back() + "\n" : "");
    }
    for (const std::string& name : names) (listed += name) += '\0';
    const std::string in_lines = folder.write("list.txt", lines.substr(0, lines.size() - 1));
    const bool is_equal = names_of(list_image_files(in_lines)) == names;
    EXPECT_TRUE(is_equal);
    const std::string count = std::to_string(names.size()) + "\n";
    const bool is_equal_listed = names_of(read_listed_files("in", folder.write("list", count + listed))) == names;
    EXPECT_TRUE(is_equal_listed);
    listed.pop_back();
    EXPECT_THAT(error_of([&] { read_listed_files("in", folder.write("list", count + listed)); }).what(),
                HasSubstr("is truncated"));
    lines[lines.size() / 2] = '\0';
    EXPECT_THAT(error_of([&] { list_image_files(folder.write("list.txt", lines)); }).what(), HasSubstr("zero bytes"));
}

TEST(FileList, ResolvesAListFileRelativeToItsFolder) {
    const TempFolder folder;
    const std::string list = folder.write("lists/some.txt", "\xef\xbb\xbf../z.jpg\r\n\n  \n# no\n/abs/b.png\na b.jpg");
    const FileList files = list_image_files(list);
    EXPECT_THAT(names_of(files), ElementsAre("../z.jpg", "/abs/b.png", "a b.jpg"));
    const FilePictures pictures(list);
    EXPECT_EQ(std::filesystem::path(pictures.origin(0)).lexically_normal(), folder / "z.jpg");
    EXPECT_EQ(pictures.origin(1), "/abs/b.png");
    EXPECT_EQ(pictures.origin(2), folder / "lists/a b.jpg");
    EXPECT_THAT(files.description, HasSubstr("3 files listed in"));
}

TEST(FileList, KeysAbsoluteNamesBelowTheListRelativeToIt) {
    const TempFolder folder;
    const std::string list = folder.write("list.txt", (folder / "a/b.jpg") + "\n/elsewhere/c.jpg\n");
    const FilePictures pictures(list);
    EXPECT_EQ(pictures.key(0), "a/b");
    EXPECT_EQ(pictures.key(1), "elsewhere/c");
}

TEST(FileList, OneImageIsAListOfOne) {
    const TempFolder folder;
    const std::string file = folder.write("one.bin", encode_jpeg({8, 8}, gradient({8, 8})));
    const FileList files = list_image_files(file);
    EXPECT_THAT(names_of(files), ElementsAre("one.bin"));
    EXPECT_EQ(FilePictures(file).origin(0), file);
}

TEST(FileList, MissingInputNamesTheValue) {
    const Error error = error_of([] { list_image_files("/no/such/folder"); });
    EXPECT_EQ(error.kind(), ErrorKind::NoInput);
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("'/no/such/folder'"), HasSubstr("no such file"), HasSubstr("Give --input")));
    EXPECT_EQ(error_of([] { list_image_files(""); }).kind(), ErrorKind::NoInput);
}

TEST(FileList, AFolderWithoutImagesNamesTheValue) {
    const TempFolder folder;
    folder.write("notes.txt", "x");
    const Error error = error_of([&] { list_image_files(folder.path()); });
    EXPECT_EQ(error.kind(), ErrorKind::NoInput);
    EXPECT_THAT(error.what(), AllOf(HasSubstr(folder.path().string()), HasSubstr("1 other files")));
}

TEST(FileList, CountsTheOtherFilesOfAFolder) {
    const TempFolder folder;
    for (const char* name : {"a.jpg", "a.txt", "deep/b.mp4"}) folder.write(name, "x");
    const auto left_out = FilePictures(list_image_files(folder.path())).left_out();
    ASSERT_EQ(left_out.size(), 1U);
    EXPECT_EQ(left_out.front().count, 2U);
}

TEST(FileList, NamesTheRemedyForAnArchive) {
    using namespace std::string_literals;
    const TempFolder folder;
    const std::pair<std::string, const char*> packed[] = {{"\x1f\x8b\b\0"s, "gzip"},
                                                          {"PK\x03\x04\0"s, "zip archive"},
                                                          {"\x28\xb5\x2f\xfd\0"s, "zstd"},
                                                          {"\xfd\x37zXZ\0"s, "xz"},
                                                          {"BZh9\0"s, "bzip2"}};
    for (const auto& [front, named] : packed) {
        const std::string file = folder.write("shards.tar.gz", front + std::string(40, 'x'));
        const Error error = error_of([&] { list_image_files(file); });
        EXPECT_EQ(error.kind(), ErrorKind::BadInput);
        EXPECT_THAT(error.what(), AllOf(HasSubstr(named), HasSubstr("unpack it")));
    }
}

TEST(FileList, AListWithoutPathsNamesTheValue) {
    const TempFolder folder;
    const std::string list = folder.write("list.txt", "# nothing\n\n");
    const Error error = error_of([&] { list_image_files(list); });
    EXPECT_EQ(error.kind(), ErrorKind::NoInput);
    EXPECT_THAT(error.what(), AllOf(HasSubstr(list), HasSubstr("no path")));
    EXPECT_EQ(error_of([&] { list_image_files(folder.write("empty.txt", "")); }).kind(), ErrorKind::NoInput);
}

TEST(FileList, RefusesAnythingElse) {
    const TempFolder folder;
    const std::string file = folder.write("model.bin", std::string("weights\0and more", 16));
    const Error error = error_of([&] { list_image_files(file); });
    EXPECT_EQ(error.kind(), ErrorKind::BadInput);
    EXPECT_THAT(error.what(), HasSubstr(file));
}

}  // namespace
}  // namespace offramp
