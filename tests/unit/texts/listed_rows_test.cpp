#include "common/app/texts/listed_texts.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "common/base/error.hpp"
#include "tests/unit/images/picture_files.hpp"

namespace offramp {
namespace {

using testing::HasSubstr;

constexpr const char* kTwoRows =
    "{\"id\":\"a\",\"text\":\"one\",\"year\":1999}\n{\"id\":\"b\",\"text\":\"two\",\"year\":2000}\n";

struct ListedRowsOfARun : testing::Test {
    ListedRowsOfARun() { keep_listed_rows(path(), *listed(kTwoRows), false); }
    std::string path() const { return (folder.path() / "listed-rows").string(); }
    std::unique_ptr<TextTable> listed(const std::string& rows) {
        InputSettings config;
        config.source = "jsonl-text";
        config.input = folder.write("rows.jsonl", rows);
        return open_texts(config);
    }
    std::string refused(const std::string& rows, ErrorKind kind = ErrorKind::BadInput) {
        try {
            require_listed_rows(path(), *listed(rows));
        } catch (const Error& problem) {
            EXPECT_EQ(problem.kind(), kind) << "restarting a consumer does not help";
            return problem.what();
        }
        return "";
    }

    TempFolder folder;
};

TEST_F(ListedRowsOfARun, AcceptsTheSameRows) {
    EXPECT_EQ(refused(kTwoRows), "");
    EXPECT_EQ(refused(std::string("\n") + kTwoRows), "") << "at any position";
}

TEST_F(ListedRowsOfARun, AcceptsRowsAddedAtTheEnd) {
    EXPECT_EQ(refused(std::string(kTwoRows) + "{\"id\":\"c\",\"text\":\"three\"}\n"), "");
}

TEST_F(ListedRowsOfARun, ANewRunsRowsReplaceAnotherRuns) {
    const std::string other = "{\"id\":\"c\",\"text\":\"three\"}\n";
    keep_listed_rows(path(), *listed(other), true);
    EXPECT_EQ(refused(other), "");
    EXPECT_THAT(refused(kTwoRows), HasSubstr("the first 1 rows are not those that the run began with"));
    EXPECT_EQ(std::filesystem::status(path()).permissions(), static_cast<std::filesystem::perms>(0640));
}

TEST_F(ListedRowsOfARun, RefusesOtherRows) {
    for (const char* rows :
         {"{\"id\":\"a\",\"text\":\"one\",\"year\":1999}\n{\"id\":\"b\",\"text\":\"two\",\"year\":2001}\n",
          "{\"id\":\"a\",\"text\":\"won\",\"year\":1999}\n{\"id\":\"b\",\"text\":\"two\",\"year\":2000}\n",
          "{\"id\":\"b\",\"text\":\"two\",\"year\":2000}\n{\"id\":\"a\",\"text\":\"one\",\"year\":1999}\n",
          "{\"id\":\"a\",\"text\":\"one\",\"year\":1999}\n"})
        EXPECT_THAT(refused(rows), HasSubstr("the first 2 rows are not those that the run began with")) << rows;
}

TEST_F(ListedRowsOfARun, RequiresNothingWithoutStoredRows) {
    std::filesystem::remove(path());
    EXPECT_EQ(refused("{\"id\":\"c\",\"text\":\"three\"}\n"), "");
}

TEST_F(ListedRowsOfARun, RefusesAnInvalidStoredFile) {
    std::ofstream(path()) << "many";
    EXPECT_THAT(refused(kTwoRows, ErrorKind::Protocol), HasSubstr("listed-rows cannot be read, or is damaged"));
}

}  // namespace
}  // namespace offramp
