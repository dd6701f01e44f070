// embeddings-postgres alone: a table that others may change, vectors that pgvector cannot hold, an index.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "consumer/processors/results/outputs_of_run.hpp"
#include "tests/contract/processors/killed_child.hpp"
#include "tests/contract/processors/postgres_test.hpp"
#include "tests/support/kill_points.hpp"
#include "tests/unit/processors/hand_made.hpp"

namespace offramp::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class EmbeddingsPostgres : public PostgresTest {
  protected:
    EmbeddingsPostgres() : PostgresTest("embeddings-postgres") {}

    static HandMade made(std::initializer_list<TensorSpec> specs) {
        HandMade sample = one_sample();
        for (const TensorSpec& spec : specs) sample.add(spec);
        sample.contents.model = "the model";
        return sample;
    }

    // Samples with these keys, in this order, whose vectors begin with `number`.
    static HandMade slab_of(const std::vector<std::string>& keys, float number) {
        HandMade slab;
        for (std::uint32_t row = 0; row < keys.size(); ++row)
            slab.contents.samples.push_back({.item = row, .batch = 0, .row = row, .empty = false, .key = keys[row]});
        slab.contents.batches.push_back({.batch = 0,
                                         .first_row = 0,
                                         .rows = static_cast<std::uint32_t>(keys.size()),
                                         .first_sample = 0,
                                         .reserved = 0});
        slab.add(spec_of("v", kFloat32, {static_cast<std::int64_t>(keys.size()), 3}));
        for (std::size_t row = 0; row < keys.size(); ++row) slab.storage[0][3 * row] = number;
        slab.contents.model = "the model";
        return slab;
    }
};

TEST_F(EmbeddingsPostgres, AddsTheMissingRows) {
    process(config_, slab_of({"b", "a"}, 1).contents);
    const auto at_work = make_processor(config_.processor, config_);
    for (int delivered = 0; delivered < 2; ++delivered)
        at_work->process(slab_of({"c", "b", "a"}, 2).contents, kNoProgress, kCurrent);
    at_work->process(slab_of({"e", "d"}, 3).contents, kNoProgress, kCurrent);
    EXPECT_EQ(
        value("SELECT string_agg(key || ' ' || (vector::real[])[1], ', ' ORDER BY key) FROM " + config_.sink_table),
        "a 1, b 1, c 2, d 3, e 3");
}

// A third transaction holds a row of the slab. When it rolls back, neither of the two waits for the other.
TEST_F(EmbeddingsPostgres, TwoThatAddTheSameRowsDoNotBlockEachOther) {
    process(config_, slab_of({"0"}, 1).contents);
    const std::string table = config_.sink_table;
    for (const bool first_is_there : {false, true}) {  // all rows are copied, or only the missing ones added
        PostgresDatabase third(config_.sink);
        third.run("BEGIN");
        third.run("INSERT INTO " + table + " VALUES ('m', 'v', 0, NULL)");
        std::exception_ptr failures[2];
        std::vector<std::thread> two;
        for (const bool backwards : {false, true})
            two.emplace_back([&, backwards] {
                try {
                    std::vector<std::string> keys{"a", "m", "z"};
                    if (first_is_there) keys.insert(keys.begin(), "0");
                    if (backwards) std::ranges::reverse(keys);
                    process(config_, slab_of(keys, 1).contents);
                } catch (...) {
                    failures[backwards ? 1 : 0] = std::current_exception();
                }
            });
        while (value("SELECT count(*) FROM pg_locks WHERE NOT granted") != "2" && !failures[0] && !failures[1])
            std::this_thread::yield();
        third.run("ROLLBACK");
        for (std::thread& one : two) one.join();
        for (const std::exception_ptr& failure : failures)
            if (failure) std::rethrow_exception(failure);
        EXPECT_EQ(value("SELECT string_agg(key, ' ' ORDER BY key) FROM " + table), "0 a m z");
        database_->run("DELETE FROM " + table + " WHERE key <> '0'");
    }
}

TEST_F(EmbeddingsPostgres, RefusesATableThatHasLostItsKey) {
    process(config_, slab_of({"a"}, 1).contents);
    database_->run("ALTER TABLE " + config_.sink_table + " DROP CONSTRAINT " + config_.sink_table + "_pkey");
    const Refusal refused = refusal_of([&] { process(config_, slab_of({"a"}, 1).contents); });
    EXPECT_EQ(refused.code, ErrorKind::Usage);
    EXPECT_THAT(refused.text, AllOf(HasSubstr(config_.sink_table), HasSubstr("lost its primary key"),
                                    HasSubstr("ADD PRIMARY KEY (key, output)")));
    EXPECT_EQ(value("SELECT count(*) FROM " + config_.sink_table), "1");
    database_->run("ALTER TABLE " + config_.sink_table + " ADD PRIMARY KEY (key, output)");
    EXPECT_NO_THROW(process(config_, slab_of({"a", "b"}, 1).contents));
}

TEST_F(EmbeddingsPostgres, ColumnsMayGetOtherTypes) {
    process(config_, slab_of({"a"}, 1).contents);
    for (const std::string change : {"vector TYPE halfvec(3)", "item TYPE integer", "key TYPE varchar"})
        database_->run("ALTER TABLE " + config_.sink_table + " ALTER COLUMN " + change);
    process(config_, slab_of({"b", "a"}, 2).contents);
    EXPECT_EQ(value("SELECT string_agg(key || ' ' || item || ' ' || vector::text, ', ' ORDER BY key) FROM " +
                    config_.sink_table),
              "a 0 [1,0,0], b 0 [2,0,0]");
}

TEST_F(EmbeddingsPostgres, RefusesATableOfOtherVectorsAndKeepsIt) {
    process(config_, made({spec_of("v", kFloat32, {1, 8})}).contents);
    const Tree before = read_tree(folder_.path());
    const auto refused = [&](const RunConfig& config, std::initializer_list<TensorSpec> specs) {
        const Refusal refusal = refusal_of([&] { process(config, made(specs).contents); });
        EXPECT_EQ(refusal.code, ErrorKind::Usage);
        return refusal.text;
    };
    EXPECT_THAT(refused(config_, {spec_of("v", kFloat32, {1, 7})}),
                AllOf(HasSubstr(config_.sink_table), HasSubstr("vectors of 8 float32 numbers of output 'v'"),
                      HasSubstr("makes 7 float32 numbers"), HasSubstr("another --sink-table")));
    RunConfig other = config_;
    other.catalogue.put("vector-dtype", "fp16");
    EXPECT_THAT(refused(other, {spec_of("v", kFloat32, {1, 8})}), HasSubstr("makes 8 float16 numbers"));
    other = config_;
    other.catalogue.put("normalize", true);
    EXPECT_THAT(refused(other, {spec_of("v", kFloat32, {1, 8})}), HasSubstr("makes 8 float32 numbers, normalized"));
    EXPECT_THAT(refused(config_, {spec_of("w", kFloat32, {1, 8}), spec_of("v", kFloat32, {1, 7})}),
                HasSubstr("makes 7"));
    EXPECT_EQ(read_tree(folder_.path()), before);
}

TEST_F(EmbeddingsPostgres, StoresIdsAndColumnsOfATableOfTexts) {
    const ScratchFolder inputs;
    config_.source = "jsonl-text";
    config_.input = inputs.path() + "/texts.jsonl";
    std::ofstream(config_.input) << R"({"id": "a", "text": "", "n": 1})"
                                 << "\n"
                                 << R"({"id": "./b", "text": "", "n": null, "s": "\u0000"})"
                                 << "\n";
    const auto rows = [&] {
        return value(
            "SELECT string_agg(id || ' ' || columns::text || ' ' || (vector::real[])[1], ', ' ORDER BY key) "
            "FROM " +
            config_.sink_table);
    };
    process(config_, slab_of({"b"}, 1).contents);
    process(config_, slab_of({"b", "a"}, 2).contents);
    EXPECT_EQ(rows(), R"(a {"n": 1} 2, ./b {"n": null, "s": "\\x00"} 1)");

    // A table that was created without them.
    clear();
    config_.source = "auto";
    process(config_, slab_of({"a"}, 1).contents);
    config_.source = "jsonl-text";
    const Refusal refused = refusal_of([&] { process(config_, slab_of({"b"}, 1).contents); });
    EXPECT_EQ(refused.code, ErrorKind::Usage);
    EXPECT_THAT(refused.text, AllOf(HasSubstr(config_.sink_table), HasSubstr("has no column 'id'"),
                                    HasSubstr("--overwrite"), HasSubstr("--sink-table")));
    EXPECT_EQ(value("SELECT count(*) FROM " + config_.sink_table), "1");
    database_->run("ALTER TABLE " + config_.sink_table + " ADD COLUMN id text, ADD COLUMN columns jsonb");
    EXPECT_THAT(refusal_of([&] { process(config_, slab_of({"b"}, 1).contents); }).text,
                HasSubstr("has no column 'id', which this run fills"));
    config_.catalogue.put("vector-columns", "none");
    EXPECT_NO_THROW(process(config_, slab_of({"b"}, 1).contents));
}

TEST_F(EmbeddingsPostgres, ATableOfTextsRecordsItsColumns) {
    const ScratchFolder inputs;
    config_.source = "jsonl-text";
    config_.input = inputs.path() + "/texts.jsonl";
    std::ofstream(config_.input) << R"({"id": "a", "text": ""})"
                                 << "\n";
    process(config_, slab_of({"a"}, 1).contents);
    note_run(config_, Came::ToItsEnd);
    finish_run(config_);
    EXPECT_THAT(value("SELECT obj_description('" + config_.sink_table + "'::regclass)"),
                HasSubstr("offramp embeddings 1 ended with id, columns "));
}

TEST_F(EmbeddingsPostgres, ChunksAreRowsOfTheirTextAndOfNoOtherTable) {
    const auto rows = [&] {
        return value(
            "SELECT string_agg(concat_ws(' ', key, chunk, start_char, end_char, (vector::real[])[1]), ', ' ORDER BY "
            "key, chunk) FROM " +
            config_.sink_table);
    };
    config_.chunk_tokens = 8;
    process(config_, slab_of({"a#1@4-9", "a#0@0-5"}, 1).contents);
    process(config_, slab_of({"a#10@9-12", "a#1@4-9", "a#2@8-9", "a#0#0@0-1"}, 2).contents);
    EXPECT_EQ(rows(), "a 0 0 5 1, a 1 4 9 1, a 2 8 9 2, a 10 9 12 2, a#0 0 0 1 2");

    const std::string before = rows();
    config_.chunk_tokens = 0;
    const Refusal others = refusal_of([&] { process(config_, slab_of({"b"}, 1).contents); });
    EXPECT_EQ(others.code, ErrorKind::Usage);
    EXPECT_THAT(others.text, AllOf(HasSubstr(config_.sink_table), HasSubstr("has rows of chunks of texts"),
                                   HasSubstr("--chunk-tokens"), HasSubstr("--sink-table")));
    EXPECT_EQ(rows(), before);

    clear();
    process(config_, slab_of({"b"}, 1).contents);
    config_.chunk_tokens = 8;
    const Refusal chunks = refusal_of([&] { process(config_, slab_of({"b#0@0-1"}, 1).contents); });
    EXPECT_EQ(chunks.code, ErrorKind::Usage);
    EXPECT_THAT(chunks.text, AllOf(HasSubstr(config_.sink_table), HasSubstr("has no column 'chunk'")));
    const Refusal unnamed = refusal_of([&] { process(config_, slab_of({"b"}, 1).contents); });
    EXPECT_THAT(unnamed.text, AllOf(HasSubstr("'b'"), HasSubstr("does not have the key of a chunk")));
    EXPECT_EQ(value("SELECT count(*) FROM " + config_.sink_table), "1");
}

TEST_F(EmbeddingsPostgres, AVectorThatPgvectorCannotHoldIsNull) {
    for (const float number : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
        HandMade sample = made({spec_of("v", kFloat32, {1, 3})});
        sample.storage[0][1] = number;
        process(config_, sample.contents);
        EXPECT_EQ(value("SELECT vector FROM " + config_.sink_table), "NULL");
        clear();
    }
    // Beyond float16's largest number.
    RunConfig halves = config_;
    halves.catalogue.put("vector-dtype", "fp16");
    HandMade sample = made({spec_of("v", kFloat32, {1, 3})});
    sample.storage[0][1] = 1e6F;
    process(halves, sample.contents);
    EXPECT_EQ(value("SELECT vector FROM " + config_.sink_table), "NULL");
}

TEST_F(EmbeddingsPostgres, RefusesVectorsTooLongForPgvector) {
    const auto refused = [&](std::int64_t numbers) {
        return refusal_of([&] { process(config_, made({spec_of("v", kFloat32, {1, numbers})}).contents); }).text;
    };
    EXPECT_THAT(refused(16'001),
                AllOf(HasSubstr("16001 float32 numbers"), HasSubstr("at most 16000"), HasSubstr("--truncate-dim")));
    config_.catalogue.put("index", "hnsw");
    EXPECT_THAT(refused(2'001), AllOf(HasSubstr("at most 2000 with --index hnsw"), HasSubstr("leave --index out")));
    EXPECT_EQ(refused(2'000), "no error");
    EXPECT_NO_THROW(finish_run(config_));
}

TEST_F(EmbeddingsPostgres, RefusesAForeignTableAndKeepsIt) {
    for (const std::string suffix : {"", "_outputs"}) {
        const std::string table = config_.sink_table + suffix;
        database_->run("CREATE TABLE " + table + " (a text)");
        database_->run("INSERT INTO " + table + " VALUES ('precious')");
        for (const bool starts : {true, false}) {
            const Refusal refused = refusal_of([&] {
                starts ? prepare_run(config_) : process(config_, made({spec_of("v", kFloat32, {1, 8})}).contents);
            });
            EXPECT_EQ(refused.code, ErrorKind::Usage);
            EXPECT_THAT(refused.text, AllOf(HasSubstr("'" + table + "'"), HasSubstr("made by another program"),
                                            HasSubstr("--sink-table")));
        }
        EXPECT_EQ(value("SELECT a FROM " + table), "precious");
        database_->run("DROP TABLE " + table);
    }
}

TEST_F(EmbeddingsPostgres, WaitsForATableThatWasTakenAway) {
    const HandMade sample = made({spec_of("v", kFloat32, {1, 8})});
    const auto at_work = make_processor(config_.processor, config_);
    at_work->process(sample.contents, kNoProgress, kCurrent);
    database_->run("ALTER TABLE " + config_.sink_table + " RENAME TO away");
    for (const auto& work : {std::function<void()>([&] { at_work->process(sample.contents, kNoProgress, kCurrent); }),
                             std::function<void()>([&] { make_processor(config_.processor, config_); }),
                             std::function<void()>([&] { finish_run(config_); })}) {
        const Refusal refused = refusal_of(work);
        EXPECT_EQ(refused.code, ErrorKind::SinkUnavailable);
        EXPECT_THAT(refused.text, AllOf(HasSubstr(config_.sink_table), HasSubstr("is gone"), HasSubstr("Restore it")));
    }
    EXPECT_EQ(value("SELECT to_regclass('" + config_.sink_table + "')"), "NULL");
    database_->run("ALTER TABLE away RENAME TO " + config_.sink_table);
    EXPECT_NO_THROW(process(config_, sample.contents));
    EXPECT_EQ(value("SELECT count(*) FROM " + config_.sink_table), "1");
}

TEST_F(EmbeddingsPostgres, FailsWhenAnotherRunRenamedItsTable) {
    const HandMade sample = made({spec_of("v", kFloat32, {1, 8})});
    process(config_, sample.contents);
    const ScratchFolder another;
    RunConfig other = config_;
    other.output = another.path();
    other.run_id = "new";
    other.overwrite = true;
    prepare_run(other);
    process(other, sample.contents);
    const Refusal refused = refusal_of([&] { process(config_, sample.contents); });
    EXPECT_EQ(refused.code, ErrorKind::Usage);
    EXPECT_THAT(refused.text, AllOf(HasSubstr("recreated by another run"), HasSubstr("its own --sink-table")));
    const std::string aside = config_.sink_table + "_before_new";
    database_->run("DROP TABLE " + aside + ", " + aside + "_outputs");
}

TEST_F(EmbeddingsPostgres, CreatesAnIndexPerVectorLength) {
    config_.catalogue.put("index", "hnsw");
    const auto indexes = [&] {
        return value(
            "SELECT string_agg(indexname || ' ' || indexdef, '; ' ORDER BY indexname) FROM pg_indexes WHERE indexdef "
            "LIKE '%hnsw%' AND tablename = '" +
            config_.sink_table + "'");
    };
    process(config_, made({spec_of("v", kFloat32, {1, 8})}).contents);
    for (int i = 0; i < 2; ++i) finish_run(config_);
    EXPECT_THAT(indexes(), AllOf(HasSubstr(config_.sink_table + "_hnsw "), HasSubstr("(vector vector_cosine_ops)")));
    clear();
    EXPECT_EQ(indexes(), "NULL");

    config_.catalogue.put("vector-dtype", "fp16");
    process(config_, made({spec_of("it's", kFloat32, {1, 8}), spec_of("w", kFloat32, {1, 5})}).contents);
    finish_run(config_);
    EXPECT_THAT(indexes(), AllOf(HasSubstr("_hnsw_1 "), HasSubstr("halfvec(8)"), HasSubstr("it''s"),
                                 HasSubstr("_hnsw_2 "), HasSubstr("halfvec(5)")));
    EXPECT_EQ(value("SELECT count(*) FROM " + config_.sink_table), "2");
}

// With any --output: the table itself records its run.
TEST_F(EmbeddingsPostgres, OverwriteRenamesATableWithAllThatBelongsToIt) {
    const std::string table = config_.sink_table, aside = table + "_before_new";
    config_.catalogue.put("index", "hnsw");
    const auto names = [&](const std::string& beginning) {
        return value(
            "SELECT string_agg(replace(relname, '" + beginning +
            "', '') || ' ' || relkind::text, ', ' ORDER BY relname) FROM pg_class WHERE starts_with(relname, '" +
            beginning + "') AND (relname NOT LIKE '%before%' OR '" + beginning + "' LIKE '%before%')");
    };
    const auto run = [&](const char* key) {
        process(config_, slab_of({key}, 1).contents);
        note_run(config_, Came::ToItsEnd);
        finish_run(config_);
    };
    run("a");
    const std::string made_there = names(table);
    EXPECT_THAT(made_there, AllOf(HasSubstr("_hnsw i"), HasSubstr("_pkey i"), HasSubstr("_outputs r")));
    database_->run("CREATE VIEW " + table + "_seen AS SELECT key FROM " + table);
    const ScratchFolder another;
    config_.output = another.path();
    config_.run_id = "new";
    const Refusal refused = refusal_of([&] { prepare_run(config_); });
    EXPECT_EQ(refused.code, ErrorKind::Usage);
    EXPECT_THAT(refused.text,
                AllOf(HasSubstr("table '" + table + "'"), HasSubstr("--overwrite"), HasSubstr("--sink-table")));
    config_.overwrite = true;
    prepare_run(config_);
    EXPECT_EQ(value("SELECT key FROM " + aside), "a");
    finish_run(config_);
    EXPECT_EQ(value("SELECT key FROM " + table), "a") << "a run without rows puts it back";
    prepare_run(config_);
    run("b");
    EXPECT_EQ(value("SELECT key FROM " + table), "b");
    EXPECT_EQ(value("SELECT key FROM " + aside), "a");
    EXPECT_EQ(value("SELECT key FROM " + table + "_seen"), "a") << "what depends on a table stays with it";
    EXPECT_EQ(names(aside), made_there);
    config_.overwrite = false;
    config_.resume = true;
    prepare_run(config_);
    process(config_, slab_of({"b", "c"}, 1).contents);
    finish_run(config_);
    EXPECT_EQ(value("SELECT count(*) FROM " + table), "2");
    database_->run("DROP TABLE " + aside + ", " + aside + "_outputs CASCADE");
}

// The launcher's last step puts the table back. It comes after a kill, too.
TEST_F(EmbeddingsPostgres, AKilledOverwriteLeavesTheRowsUnderOneName) {
    const std::string table = config_.sink_table, aside = table + "_before_new";
    process(config_, slab_of({"a"}, 1).contents);
    note_run(config_, Came::ToItsEnd);
    finish_run(config_);
    const ScratchFolder another;
    config_.output = another.path();
    config_.run_id = "new";
    config_.overwrite = true;
    const auto names = [&] {
        return value("SELECT string_agg(relname, ' ' ORDER BY relname) FROM pg_class WHERE starts_with(relname, '" +
                     table + "')");
    };
    const std::string made_there = names();
    std::optional<Outcome> fate = Outcome::Killed;
    int n = 1, renamed = 0;
    for (; fate == Outcome::Killed && n < 5000; n += kill_one_in()) {
        fate = killed_at_syscall(n, [&] {
            prepare_run(config_);
            finish_run(config_);
        });
        if (!fate) GTEST_SKIP() << "this machine does not let a process trace its child";
        while (value("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND backend_type = "
                     "'client backend'") != "1")
            std::this_thread::yield();
        const bool is_aside = value("SELECT to_regclass('" + aside + "') IS NOT NULL") == "t";
        renamed += is_aside ? 1 : 0;
        EXPECT_EQ(value("SELECT key FROM " + (is_aside ? aside : table)), "a") << "killed at system call " << n;
        finish_run(config_);
        EXPECT_EQ(value("SELECT key FROM " + table), "a") << "killed at system call " << n;
        EXPECT_EQ(names(), made_there) << "killed at system call " << n;
    }
    EXPECT_EQ(fate, Outcome::Finished);
    EXPECT_GT(renamed, 0);
}

TEST_F(EmbeddingsPostgres, RefusesANameThatIsTooLongToRenameTo) {
    process(config_, slab_of({"a"}, 1).contents);
    config_.overwrite = true;
    config_.run_id = std::string(60, 'r');
    const ScratchFolder another;
    config_.output = another.path();
    EXPECT_THAT(refusal_of([&] { prepare_run(config_); }).text, HasSubstr("longer than the names of PostgreSQL"));
    EXPECT_EQ(value("SELECT key FROM " + config_.sink_table), "a");
}

TEST_F(EmbeddingsPostgres, ANamedSchemaMustExist) {
    config_.sink_table = "elsewhere." + config_.sink_table;
    const HandMade sample = made({spec_of("v", kFloat32, {1, 8})});
    const Refusal refused = refusal_of([&] { process(config_, sample.contents); });
    EXPECT_EQ(refused.code, ErrorKind::Usage);
    EXPECT_THAT(refused.text, HasSubstr("Create the schema"));
    database_->run("CREATE SCHEMA elsewhere");
    config_.catalogue.put("index", "hnsw");
    process(config_, sample.contents);
    finish_run(config_);
    EXPECT_EQ(value("SELECT count(*) FROM " + config_.sink_table), "1");
    config_.overwrite = true;
    config_.run_id = "new";
    const ScratchFolder another;
    config_.output = another.path();
    prepare_run(config_);
    EXPECT_EQ(value("SELECT count(*) FROM " + config_.sink_table + "_before_new"), "1");
    finish_run(config_);
    database_->run("DROP TABLE " + config_.sink_table + ", " + config_.sink_table + "_outputs");
    database_->run("DROP SCHEMA elsewhere");  // nothing is left in it
}

}  // namespace
}  // namespace offramp::test
