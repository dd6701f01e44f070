// The rows that records-postgres writes, and the tables that it accepts.
#include <gmock/gmock.h>

#include <cstring>

#include "consumer/processors/results/outputs_of_run.hpp"
#include "tests/contract/processors/postgres_test.hpp"
#include "tests/unit/images/picture_files.hpp"
#include "tests/unit/processors/hand_made.hpp"

namespace offramp::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class RecordsPostgres : public PostgresTest {
  protected:
    RecordsPostgres() : PostgresTest("records-postgres") {}

    // A class map of four pixels: half of them of class 7.
    static HandMade mapped(const std::string& key = "sample") {
        HandMade made = one_sample();
        made.contents.model = "m";
        made.contents.samples[0].key = key;
        made.add(spec_of("map", kUInt8, {1, 2, 2}));
        const std::uint8_t ids[] = {7, 0, 7, 255};
        std::memcpy(made.storage[0].data(), ids, sizeof ids);
        return made;
    }

    // The columns of the only row, as text.
    std::vector<std::string> row() {
        std::vector<std::string> texts;
        const auto rows =
            database_->rows("SELECT item, key, status, files, classes, columns, model FROM " + config_.sink_table);
        EXPECT_EQ(rows.size(), 1U);
        for (const auto& value : rows.at(0)) texts.push_back(value.value_or("NULL"));
        return texts;
    }

    using Texts = std::vector<std::string>;
};

TEST_F(RecordsPostgres, ReportTheShareOfPixelsOfEachClass) {
    process(config_, mapped().contents);
    EXPECT_EQ(row(), (Texts{"0", "sample", "done", "{}", R"({"0": 0.25, "7": 0.5, "255": 0.25})", "{}", "m"}));
    EXPECT_EQ(value("SELECT key FROM " + config_.sink_table + " WHERE (classes -> '7')::float >= 0.5"), "sample");
}

TEST_F(RecordsPostgres, HaveNoClassesForAModelWithoutThem) {
    HandMade made = one_sample();
    made.add(spec_of("v", kFloat32, {1, 8}));
    process(config_, made.contents);
    EXPECT_EQ(row(), (Texts{"0", "sample", "done", "{}", "NULL", "{}", ""}));
}

TEST_F(RecordsPostgres, ListTheFilesOfOtherProcessorsInAnyOrder) {
    config_.catalogue.put("mask-size", "model");  // the sample has no picture
    for (const std::string names : {"records-postgres,mask-png,npy", "mask-png,npy,records-postgres"}) {
        config_.processor = names;
        clear();
        process(config_, mapped("a b/c\"d").contents);
        EXPECT_EQ(row()[3], R"({"npy": ["npy/a b/c\"d.map.npy"], "mask-png": ["mask-png/a b/c\"d.png"]})") << names;
    }
}

TEST_F(RecordsPostgres, ASkippedItemThatIsDoneLaterStaysDone) {
    const HandMade made = mapped();
    SlabContents skipped = made.contents;
    skipped.samples[0].empty = true;
    process(config_, skipped);
    EXPECT_EQ(row(), (Texts{"0", "sample", "skipped", "{}", "NULL", "{}", "m"}));
    process(config_, made.contents);
    const Texts done = row();
    EXPECT_EQ(done[2], "done");
    // A resumed run sends a done item as an empty row named by its number.
    skipped.samples[0].key = "0";
    process(config_, skipped);
    EXPECT_EQ(row(), done);
    // Done again with another result: the latest is kept.
    SlabContents again = made.contents;
    again.model = "m2";
    process(config_, again);
    EXPECT_EQ(row()[6], "m2");
}

TEST_F(RecordsPostgres, HaveAllInputColumnsEvenThosePostgresCannotHold) {
    TempFolder inputs;
    config_.input =
        inputs.write("list.jsonl", R"({"id":"chair","uri":"a.png","price":12,"name":"a\u0000b\\u0000\u00fc"})"
                                   "\n");
    process(config_, mapped("chair").contents);
    EXPECT_EQ(value("SELECT columns ->> 'name' FROM " + config_.sink_table), "a\\x00b\\u0000\u00fc");
    EXPECT_EQ(value("SELECT columns -> 'price' FROM " + config_.sink_table), "12");
}

TEST_F(RecordsPostgres, RefuseForeignTablesAndTablesOfVectors) {
    const auto refused_and_left = [&](const std::string& question, const std::string& wanted) {
        for (const bool starts : {true, false}) {
            const Refusal refused =
                refusal_of([&] { starts ? prepare_run(config_) : process(config_, mapped().contents); });
            EXPECT_EQ(refused.code, ErrorKind::Usage);
            EXPECT_THAT(refused.text,
                        AllOf(HasSubstr("'" + config_.sink_table + "'"),
                              HasSubstr("made by another program, or holds other results"), HasSubstr("--sink-table")));
        }
        EXPECT_EQ(value(question), wanted);
    };
    database_->run("CREATE TABLE " + config_.sink_table + " (a text)");
    database_->run("INSERT INTO " + config_.sink_table + " VALUES ('precious')");
    refused_and_left("SELECT a FROM " + config_.sink_table, "precious");
    database_->run("DROP TABLE " + config_.sink_table);

    const ScratchFolder another;
    RunConfig vectors = config_for("embeddings-postgres", another.path());
    vectors.sink_table = config_.sink_table;
    HandMade vector = one_sample();
    vector.add(spec_of("v", kFloat32, {1, 8}));
    process(vectors, vector.contents);
    refused_and_left("SELECT count(*) FROM " + config_.sink_table, "1");
    database_->run("DROP TABLE " + config_.sink_table + ", " + config_.sink_table + "_outputs");
}

TEST_F(RecordsPostgres, WaitForATableThatWasTakenAway) {
    const HandMade made = mapped();
    const auto at_work = make_processor(config_.processor, config_);
    at_work->process(made.contents, kNoProgress, kCurrent);
    database_->run("ALTER TABLE " + config_.sink_table + " RENAME TO records_away");
    for (const auto& work : {std::function<void()>([&] { at_work->process(made.contents, kNoProgress, kCurrent); }),
                             std::function<void()>([&] { make_processor(config_.processor, config_); }),
                             std::function<void()>([&] { finish_run(config_); })}) {
        const Refusal refused = refusal_of(work);
        EXPECT_EQ(refused.code, ErrorKind::SinkUnavailable);
        EXPECT_THAT(refused.text, AllOf(HasSubstr(config_.sink_table), HasSubstr("is gone"), HasSubstr("Restore it")));
    }
    database_->run("ALTER TABLE records_away RENAME TO " + config_.sink_table);
    EXPECT_NO_THROW(process(config_, made.contents));
    EXPECT_EQ(value("SELECT count(*) FROM " + config_.sink_table), "1");
}

// Each has its own table and mark.
TEST_F(RecordsPostgres, ShareASchemaWithVectors) {
    config_.processor = "embeddings-postgres,records-postgres";
    config_.sink_table = "auto";
    // In a separate schema, since a user's tables have the same names.
    database_->run("CREATE EXTENSION IF NOT EXISTS vector");
    database_->run("CREATE SCHEMA beside");
    config_.sink += "&options=-csearch_path%3Dbeside,public";
    HandMade made = one_sample();
    made.add(spec_of("v", kFloat32, {1, 8}));
    for (int i = 0; i < 2; ++i) process(config_, made.contents);
    finish_run(config_);
    EXPECT_EQ(value("SELECT count(*) FROM pg_tables WHERE schemaname = 'beside'"), "3");
    EXPECT_EQ(value("SELECT count(*) FROM beside.embeddings"), "1");
    EXPECT_EQ(value("SELECT count(*) FROM beside.records"), "1");
    database_->run("DROP SCHEMA beside CASCADE");
}

}  // namespace
}  // namespace offramp::test
