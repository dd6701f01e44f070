#include "consumer/sinks/segments/segment_merge.hpp"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "common/base/error.hpp"
#include "consumer/sinks/sqlite/output_database.hpp"
#include "consumer/sinks/sqlite/sqlite_database.hpp"
#include "tests/contract/processors/processor_world.hpp"
#include "tests/support/error_of.hpp"

namespace offramp {
namespace {

using test::read_tree;
using test::ScratchFolder;
using test::Tree;
using ::testing::HasSubstr;

constexpr const char* kSchema =
    "CREATE TABLE kinds (name TEXT PRIMARY KEY) WITHOUT ROWID;"
    "CREATE TABLE records (item INTEGER PRIMARY KEY, status TEXT NOT NULL);"
    "CREATE INDEX by_status ON records (status);";

struct ShardParts : ::testing::Test {
    // Of the items [begin, end).
    ShardPart part(std::uint64_t begin, std::uint64_t end) const {
        const std::string name = folder.path() + "/" + std::to_string(begin);
        std::filesystem::create_directories(name);
        return {.folder = name, .items = {begin, end}, .files = {}, .to_do_again = "Make it anew"};
    }
    ShardPart part_of_lines(std::uint64_t begin, std::uint64_t end, const std::string& lines) const {
        ShardPart made = part(begin, end);
        std::ofstream(made.folder + "/all.tsv") << lines;
        made.files = {"all.tsv"};
        return made;
    }
    void join(const std::vector<ShardPart>& parts) const { join_parts(parts, "all.tsv", folder.path() + "/all.tsv"); }
    std::string joined() const {
        const Tree tree = read_tree(folder.path());
        const auto found = tree.find("all.tsv");
        return found == tree.end() ? "none" : found->second;
    }

    ScratchFolder folder;
};

TEST_F(ShardParts, LinesAreOrderedAsInOneRun) {
    const std::vector<ShardPart> parts{part_of_lines(0, 2, "0\ta\n0\tb\n1\ta\n"), part(2, 9),
                                       part_of_lines(9, 11, "9\ta\n10\ta\n")};
    join(parts);
    EXPECT_EQ(joined(), "0\ta\n0\tb\n1\ta\n9\ta\n10\ta\n");
    join(parts);
    EXPECT_EQ(joined(), "0\ta\n0\tb\n1\ta\n9\ta\n10\ta\n") << "again, over its own result";
}

TEST_F(ShardParts, IgnoresItemsOfOtherParts) {
    join({part_of_lines(0, 2, "1\tmine\n2\tseen\n"), part_of_lines(2, 4, "1\tseen\n2\tmine\n")});
    EXPECT_EQ(joined(), "1\tmine\n2\tmine\n");
}

TEST_F(ShardParts, CreateNothingWithoutParts) {
    join({part(0, 2), part(2, 4)});
    EXPECT_EQ(joined(), "none");
}

// Another merge may have finished and removed them: the rest must not become a complete file.
TEST_F(ShardParts, ReportMissingFilesAndReplaceNothing) {
    const std::vector<ShardPart> parts{part_of_lines(0, 2, "0\ta\n"), part_of_lines(2, 4, "2\ta\n")};
    join(parts);
    std::filesystem::remove(parts[1].folder + "/all.tsv");
    EXPECT_THAT(
        test::error_of([&] { join(parts); }, ErrorKind::BadInput),
        testing::AllOf(HasSubstr("/2/all.tsv, listed in the shard's record, is gone"), HasSubstr("Make it anew")));
    EXPECT_EQ(joined(), "0\ta\n2\ta\n");
    ShardPart database = part(4, 6);
    database.files = {"records.sqlite"};
    EXPECT_THROW(join_databases(std::vector{database}, folder.path(), "records", Durability::Process), Error);
}

TEST_F(ShardParts, ReportDamagedFilesAndReplaceNothing) {
    std::ofstream(folder.path() + "/all.tsv") << "0\tearlier\n";
    for (const char* const lines : {"2\ta\n2", "3\ta\n2\tb\n", "x\n"}) {
        EXPECT_THAT(test::error_of<ProtocolError>([&] {
                        join({part_of_lines(0, 2, "0\ta\n"), part_of_lines(2, 4, lines)});
                    }),
                    testing::AllOf(HasSubstr("/2/all.tsv is damaged"), HasSubstr("Make it anew")))
            << lines;
        EXPECT_EQ(joined(), "0\tearlier\n");
    }
}

// The file beside it, which takes new rows, is another one.
TEST_F(ShardParts, ReportADamagedDatabase) {
    std::vector<ShardPart> parts{part(0, 2), part(2, 4)};
    for (ShardPart& part : parts) part.files = {"records.sqlite"};
    OutputDatabase(parts[0].folder, "records", kSchema, Durability::Process).transact([](SqliteDatabase&) {});
    finish_database(parts[0].folder, "records");
    std::ofstream(parts[1].folder + "/records.sqlite") << std::string(4096, 'x');
    EXPECT_THAT(
        test::error_of([&] { join_databases(parts, folder.path() + "/records", "records", Durability::Process); }),
        testing::AllOf(HasSubstr("/2/records.sqlite"), HasSubstr("Make it anew")));
    EXPECT_FALSE(std::filesystem::exists(folder.path() + "/records/records.sqlite"));
}

TEST_F(ShardParts, ADatabaseHasEachItemOfAllPartsOnce) {
    const auto fill = [](ShardPart part, const char* rows) {
        part.files = {"records.sqlite"};
        {
            OutputDatabase database(part.folder, "records", kSchema, Durability::Process);
            database.transact([&](SqliteDatabase& into) { into.execute(rows); });
        }
        finish_database(part.folder, "records");
        return part;
    };
    const std::vector<ShardPart> parts{
        fill(part(0, 2), "INSERT INTO kinds VALUES ('a'); INSERT INTO records VALUES (0, 'done'), (1, 'done')"),
        part(2, 5),
        fill(part(5, 7), "INSERT INTO kinds VALUES ('a'), ('b'); INSERT INTO records VALUES (1, 'seen'), (6, 'done')")};
    for (int times = 0; times < 2; ++times) {
        join_databases(parts, folder.path() + "/records", "records", Durability::Process);
        SqliteDatabase made = SqliteDatabase::opened_to_read(folder.path() + "/records/records.sqlite");
        std::vector<std::string> found;
        for (SqliteStatement rows(made, "SELECT item || ' ' || status FROM records UNION ALL SELECT name FROM kinds");
             rows.step();)
            found.push_back(rows.text(0));
        EXPECT_THAT(found, ::testing::UnorderedElementsAre("0 done", "1 done", "6 done", "a", "b"));
        SqliteStatement index(made, "SELECT count(*) FROM sqlite_master WHERE name = 'by_status'");
        EXPECT_TRUE(index.step());
        EXPECT_EQ(index.number(0), 1);
    }
    // It continues: its mark names it.
    OutputDatabase(folder.path() + "/records", "records", kSchema, Durability::Process)
        .transact([](SqliteDatabase& database) { database.execute("INSERT INTO records VALUES (7, 'done')"); });
    for (const ShardPart& part : parts)
        for (const auto& entry : std::filesystem::directory_iterator(part.folder))
            EXPECT_FALSE(entry.path().filename().string().starts_with(".offramp-joined-")) << entry.path();
}

}  // namespace
}  // namespace offramp
