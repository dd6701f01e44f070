#include "common/app/texts/parquet_texts.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "common/app/images/unreadable_item.hpp"
#include "common/base/error.hpp"
#include "tests/support/error_of.hpp"
#include "tests/unit/images/picture_files.hpp"

namespace offramp {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct ParquetTextsTest : ::testing::Test {
    void SetUp() override {
        if (!OFFRAMP_HAS_PARQUET) GTEST_SKIP() << "skipped: Offramp was built without Arrow";
    }

    // The table that `program` makes with pyarrow, in row groups of this many rows.
    void write_table(const std::string& program, int rows_in_group) {
        const std::string path =
            folder.write("write.py", "import sys, pyarrow, pyarrow.parquet\n" + program +
                                         "\npyarrow.parquet.write_table(table, sys.argv[1], row_group_size=" +
                                         std::to_string(rows_in_group) + ")\n");
        config.source = "parquet-text";
        config.input = folder / "texts.parquet";
        ASSERT_EQ(std::system((OFFRAMP_TEST_PYTHON " " + path + " " + config.input).c_str()), 0);
    }

    // A table of these columns by pyarrow, in row groups of two, uncompressed.
    void write(const std::string& names, const std::string& columns) {
        const std::string program =
            folder.write("write.py",
                         "import sys, pyarrow, pyarrow.parquet\n"
                         "table = pyarrow.Table.from_arrays([pyarrow.array(column) for column in " +
                             columns + "], names=" + names +
                             ")\n"
                             "pyarrow.parquet.write_table(table, sys.argv[1], row_group_size=2, compression='NONE', "
                             "use_dictionary=False)\n");
        config.source = "parquet-text";
        config.input = folder / "texts.parquet";
        ASSERT_EQ(std::system((OFFRAMP_TEST_PYTHON " " + program + " " + config.input).c_str()), 0);
    }

    std::string refusal() {
        return test::error_of<ConfigError>([&] { const ParquetTexts texts(config); }, ErrorKind::BadInput);
    }

    TempFolder folder;
    InputSettings config;
};

TEST_F(ParquetTextsTest, ARewrittenRowIsUnreadable) {
    write("['id', 'text', 'note']",
          "[['id-a', 'id-b', 'id-c'], ['one', 'two', 'three'], ['a note', 'old note', 'no note']]");
    std::string before;
    {
        std::ifstream file(config.input, std::ios::binary);
        before.assign(std::istreambuf_iterator<char>(file), {});
    }
    for (const auto& [old, other, text_is_as_listed] : {std::tuple<std::string, std::string, bool>{"two", "six", false},
                                                        {"id-b", "id-d", false},
                                                        {"old note", "new note", true}}) {
        folder.write("texts.parquet", before);
        const ParquetTexts texts(config);
        std::string after = before;
        for (std::size_t at = 0; (at = after.find(old)) != std::string::npos;) after.replace(at, old.size(), other);
        folder.write("texts.parquet", after);
        const auto was_changed =
            ::testing::ThrowsMessage<UnreadableItem>(HasSubstr("the row was changed since it was listed"));
        EXPECT_EQ(texts.text(0), "one") << "from the same row group";
        EXPECT_EQ(texts.beside(0).columns, R"({"note":"a note"})");
        EXPECT_EQ(texts.text(2), "three");
        EXPECT_THAT([&] { (void)texts.beside(1).columns; }, was_changed) << other;
        if (text_is_as_listed)
            EXPECT_EQ(texts.text(1), "two");
        else
            EXPECT_THAT([&] { (void)texts.text(1); }, was_changed) << other;
    }
}

TEST_F(ParquetTextsTest, RefusesARepeatedColumnByName) {
    write("['id', 'text', 'text', 'body', 'n', 'n']", "[['a'], ['one'], ['two'], ['three'], [1], [2]]");
    EXPECT_THAT(refusal(), AllOf(HasSubstr("texts.parquet': it has 2 columns \"text\""), HasSubstr("--text-column")));
    config.text_column = "body";
    config.columns = "n";
    EXPECT_THAT(refusal(), AllOf(HasSubstr("it has 2 columns \"n\""), HasSubstr("--columns")));
    config.columns = "";
    EXPECT_THAT(refusal(), AllOf(HasSubstr("it has 2 columns \""), HasSubstr("--columns")));
    write("['id', 'body', 'm', 'n', 'n']", "[['a'], ['three'], [3], [1], [2]]");
    EXPECT_THAT(refusal(), AllOf(HasSubstr("it has 2 columns \"n\""), HasSubstr("--columns")));
    config.columns = "m";
    const ParquetTexts texts(config);
    EXPECT_EQ(texts.text(0), "three");
    EXPECT_EQ(texts.beside(0).columns, R"({"m":3})");
}

TEST_F(ParquetTextsTest, ConvertsValuesOfEachKindToJson) {
    write_table(
        "import datetime, numpy\n"
        "table = pyarrow.table({'id': ['a'], 'text': ['one'],\n"
        "  'half': pyarrow.array([numpy.float16(1.5)], pyarrow.float16()),\n"
        "  'lasted': pyarrow.array([5], pyarrow.duration('ms')),\n"
        "  'counts': pyarrow.array([[('k', 1), ('m', None)]], pyarrow.map_(pyarrow.string(), pyarrow.int64())),\n"
        "  'day': [datetime.date(2026, 1, 2)], 'nothing': pyarrow.array([float('nan')])})",
        1);
    const ParquetTexts texts(config);
    EXPECT_EQ(texts.beside(0).columns,
              R"({"counts":[{"key":"k","value":1},{"key":"m","value":null}],"day":"2026-01-02","half":1.5,)"
              R"("lasted":"5 ms","nothing":null})");
}

TEST_F(ParquetTextsTest, NamesARowThatIsNotText) {
    write_table(
        "table = pyarrow.table({'id': ['a', 'b', 'c'], 'text': pyarrow.Array.from_buffers(pyarrow.string(), 3, "
        "pyarrow.array([b'one', b'two', b'\\xff'], pyarrow.binary()).buffers())})",
        2);
    EXPECT_THAT(refusal(), AllOf(HasSubstr("row group 2: row 1: its \"text\" is not UTF-8 from byte 1 on"),
                                 HasSubstr("--columns can leave out any column except id and text")));
}

constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 30U;

// Forwards to the real file until it fails.
class FailingRows final : public ParquetRows {
  public:
    FailingRows(const std::string& path, const std::optional<ErrorKind>& failure)
        : rows_(parquet_rows_library().open(path, kMostBytes)), failure_(failure) {}
    std::vector<std::string> columns() const override { return rows_->columns(); }
    std::vector<std::uint64_t> rows_of_groups() const override { return rows_->rows_of_groups(); }
    void read(std::size_t group, const std::vector<std::string>& columns,
              const std::function<void(nlohmann::json&&)>& found) override {
        if (failure_) throw Error(*failure_, "no such row group");
        rows_->read(group, columns, found);
    }

  private:
    std::unique_ptr<ParquetRows> rows_;
    const std::optional<ErrorKind>& failure_;
};

// The item would be skipped.
TEST_F(ParquetTextsTest, ReportsAMemoryShortageAsSuch) {
    write("['id', 'text']", "[['a'], ['one']]");
    std::optional<ErrorKind> failure;
    const ParquetTexts texts(config, std::make_unique<FailingRows>(config.input, failure));
    failure = ErrorKind::BadInput;
    EXPECT_THAT([&] { (void)texts.text(0); }, ::testing::ThrowsMessage<UnreadableItem>(HasSubstr("was changed")));
    failure = ErrorKind::System;
    try {
        (void)texts.text(0);
        ADD_FAILURE() << "it was read";
    } catch (const UnreadableItem& problem) {
        ADD_FAILURE() << problem.what();
    } catch (const Error& problem) {
        EXPECT_EQ(problem.kind(), ErrorKind::System);
    }
    failure.reset();
    EXPECT_EQ(texts.text(0), "one");
}

// Forwards to the real file and counts its reads.
class CountedRows final : public ParquetRows {
  public:
    CountedRows(const std::string& path, std::vector<int>& reads)
        : rows_(parquet_rows_library().open(path, kMostBytes)), reads_(reads) {
        reads_.assign(rows_->rows_of_groups().size(), 0);
    }
    std::vector<std::string> columns() const override { return rows_->columns(); }
    std::vector<std::uint64_t> rows_of_groups() const override { return rows_->rows_of_groups(); }
    void read(std::size_t group, const std::vector<std::string>& columns,
              const std::function<void(nlohmann::json&&)>& found) override {
        ++reads_[group];
        rows_->read(group, columns, found);
    }

  private:
    std::unique_ptr<ParquetRows> rows_;
    std::vector<int>& reads_;
};

// Threads that load batches read in many places at the same time.
TEST_F(ParquetTextsTest, ReadsSmallRowGroupsOnceInAnyOrder) {
    constexpr std::uint64_t kRows = 400;
    write_table(
        "table = pyarrow.table({'id': list(range(400)), 'text': [f'text {i}' for i in range(400)], 'n': "
        "list(range(400))})",
        5);
    std::vector<int> reads;
    const ParquetTexts texts(config, std::make_unique<CountedRows>(config.input, reads));
    ASSERT_EQ(reads, std::vector<int>(80, 1)) << "listed";
    for (const std::uint64_t step : {7U, 101U, 399U})
        for (std::uint64_t i = 0; i < kRows; ++i) {
            const std::uint64_t number = i * step % kRows;
            ASSERT_EQ(texts.text(number), "text " + std::to_string(number));
            ASSERT_EQ(texts.beside(number).columns, "{\"n\":" + std::to_string(number) + "}");
        }
    EXPECT_EQ(reads, std::vector<int>(80, 3)) << "its texts once, and its other columns once";
}

TEST_F(ParquetTextsTest, KeepsTwoLargeRowGroups) {
    write_table(
        "table = pyarrow.table({'id': list(range(6)), 'text': [str(i) * 900_000 for i in range(6)] , 'n': ['x' * "
        "(17 << 20)] * 6})",
        2);
    std::vector<int> reads;
    const ParquetTexts texts(config, std::make_unique<CountedRows>(config.input, reads));
    for (const std::uint64_t number : {1U, 2U, 0U, 3U, 1U, 2U})
        EXPECT_EQ(texts.beside(number).id, std::to_string(number));
    EXPECT_EQ(reads, (std::vector<int>{2, 2, 1})) << "34 MiB each: the ending one and the starting one";
    (void)texts.beside(4);
    (void)texts.beside(0);
    EXPECT_EQ(reads, (std::vector<int>{3, 2, 2})) << "a third replaces the least recently requested one";
    EXPECT_EQ(texts.text(5).front(), '5');
    EXPECT_EQ(texts.text(0).front(), '0');
    EXPECT_EQ(texts.text(5).front(), '5');
    EXPECT_EQ(reads, (std::vector<int>{4, 2, 3})) << "texts are stored separately";
}

TEST_F(ParquetTextsTest, KeepsAnIdWithAnyKey) {
    write("['id', 'text']", "[['https://example.org/a?b#c', '../x', 'plain'], ['1', '2', '3']]");
    const ParquetTexts texts(config);
    EXPECT_EQ(texts.beside(0).id, "https://example.org/a?b#c");
    EXPECT_EQ(texts.beside(1).id, "../x");
    EXPECT_NE(texts.key(1), "../x");
}

// Equal rows take almost no space in a file.
TEST_F(ParquetTextsTest, RefusesATooLargeRowGroup) {
    const std::string program =
        folder.write("write.py",
                     "import sys, pyarrow, pyarrow.parquet\n"
                     "table = pyarrow.table({'id': range(100000), 'text': ['the same words'] * 100000})\n"
                     "pyarrow.parquet.write_table(table, sys.argv[1], compression='zstd')\n");
    const std::string path = folder / "bomb.parquet";
    ASSERT_EQ(std::system((OFFRAMP_TEST_PYTHON " " + program + " " + path).c_str()), 0);
    const auto read = [&path](std::uint64_t most) {
        std::size_t rows = 0;
        parquet_rows_library().open(path, most)->read(0, {"text"}, [&rows](nlohmann::json&&) { ++rows; });
        return rows;
    };
    EXPECT_EQ(read(std::uint64_t{64} << 20U), 100'000U);
    EXPECT_THAT(
        [&] { read(std::uint64_t{1} << 20U); },
        ::testing::ThrowsMessage<Error>(AllOf(
            HasSubstr("row group 1: "), HasSubstr("it needs more than 1 MiB at a time"), HasSubstr("row_group_size"))));
}

}  // namespace
}  // namespace offramp
