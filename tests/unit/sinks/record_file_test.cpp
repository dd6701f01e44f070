#include "consumer/sinks/segments/segment_file.hpp"

#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include "common/base/error.hpp"
#include "tests/contract/processors/processor_world.hpp"
#include "tests/support/error_of.hpp"

namespace offramp {
namespace {

namespace fs = std::filesystem;
using test::ScratchFolder;
using ::testing::HasSubstr;

// Bytes in which all pieces of a mebibyte differ.
std::string numbers(std::size_t bytes) {
    std::string text;
    for (std::size_t number = 0; text.size() < bytes; ++number) text += std::to_string(number) + " ";
    text.resize(bytes);
    return text;
}

std::string write_file(const ScratchFolder& folder, const std::string& text) {
    const std::string path = folder.path() + "/file";
    std::ofstream(path, std::ios::binary) << text;
    return path;
}

RC_GTEST_PROP(RecordFile, GivesWhatTheFileHasWhereverItIsRead, ()) {
    static const std::string text = numbers(5 << 19);  // two windows and a half
    const ScratchFolder folder;
    RecordFile file(write_file(folder, text));
    RC_ASSERT(file.size() == text.size());
    for (int reads = *rc::gen::inRange(1, 12); reads > 0; --reads) {
        const auto at = *rc::gen::inRange<std::size_t>(0, text.size() + 1);
        const auto least =
            *rc::gen::oneOf(rc::gen::inRange<std::size_t>(0, 1000), rc::gen::inRange<std::size_t>(0, 2 * text.size()));
        const std::string_view found = file.from(at, least);
        RC_ASSERT(found.size() >= std::min(least, text.size() - at));
        RC_ASSERT(found == std::string_view(text).substr(at, found.size()));
    }
}

TEST(RecordFile, ReadsNothingFromAnEmptyFile) {
    const ScratchFolder folder;
    EXPECT_EQ(RecordFile(write_file(folder, "")).from(0, 1), "");
}

TEST(RecordFile, RefusesANonFileByItsPath) {
    const ScratchFolder folder;
    EXPECT_THAT(test::error_of([&] { RecordFile file(folder.path()); }),
                HasSubstr("cannot read " + folder.path() + ": a folder, not a file"));
    EXPECT_THAT(test::error_of([&] { RecordFile file(folder.path() + "/none"); }),
                HasSubstr("/none: cannot be opened: No such file"));
}

TEST(RecordFile, AShrinkingFileIsAnErrorNotACrash) {
    const ScratchFolder folder;
    const std::string path = write_file(folder, numbers(3 << 20));
    RecordFile file(path);
    file.from(0, 1);
    fs::resize_file(path, 2 << 20);
    for (int tries = 0; tries < 2; ++tries)
        EXPECT_THAT(test::error_of([&] { file.from(5 << 19, 1); }), HasSubstr(path + ": it shrank from 3145728 bytes"));
}

}  // namespace
}  // namespace offramp
