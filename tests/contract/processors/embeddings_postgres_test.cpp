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
#include <string>
#include <thread>
#include <vector>

#include "common/app/program/next_place.hpp"
#include "consumer/processors/results/finish.hpp"
#include "tests/contract/processors/postgres_test.hpp"
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

TEST_F(EmbeddingsPostgres, ReplacesATableUnlessItHasForeignColumns) {
    const ScratchFolder inputs;
    config_.source = "jsonl-text";
    config_.input = inputs.path() + "/texts.jsonl";
    std::ofstream(config_.input) << R"({"id": "a", "text": ""})"
                                 << "\n";
    const auto run = [&] {
        process(config_, slab_of({"a"}, 1).contents);
        note_run(config_, Came::ToItsEnd);
        finish_run(config_);
    };
    run();
    EXPECT_THAT(value("SELECT obj_description('" + config_.sink_table + "'::regclass)"),
                HasSubstr("offramp embeddings 1 ended with id, columns "));
    config_.overwrite = true;
    for (int again = 0; again < 2; ++again) {
        prepare_run(config_);
        run();
    }
    database_->run("ALTER TABLE " + config_.sink_table + " ADD COLUMN label text");
    EXPECT_THAT(refusal_of([&] { prepare_run(config_); }).text,
                AllOf(HasSubstr("column label of table"), Not(HasSubstr("column id of table"))));
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

TEST_F(EmbeddingsPostgres, FailsWhenAnotherRunReplacedItsTable) {
    const HandMade sample = made({spec_of("v", kFloat32, {1, 8})});
    process(config_, sample.contents);
    const ScratchFolder another;
    RunConfig other = config_;
    other.output = another.path();
    prepare_run(other);
    process(other, sample.contents);
    EXPECT_EQ(refusal_of([&] { process(config_, sample.contents); }).text, "no error")
        << "the other run's rows are in another table";
    note_run(other, Came::ToItsEnd);
    finish_run(other);
    const Refusal refused = refusal_of([&] { process(config_, sample.contents); });
    EXPECT_EQ(refused.code, ErrorKind::Usage);
    EXPECT_THAT(refused.text, AllOf(HasSubstr("recreated by another run"), HasSubstr("its own --sink-table")));
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

// With any --output: the table itself records that its run finished.
TEST_F(EmbeddingsPostgres, ReplacesATableOfAFinishedRunWhenAsked) {
    process(config_, slab_of({"a"}, 1).contents);
    note_run(config_, Came::ToItsEnd);
    finish_run(config_);
    for (const bool same_folder : {true, false}) {
        const ScratchFolder another;
        RunConfig other = config_;
        if (!same_folder) other.output = another.path();
        const Refusal refused = refusal_of([&] { prepare_run(other); });
        EXPECT_EQ(refused.code, ErrorKind::Usage);
        EXPECT_THAT(refused.text, AllOf(HasSubstr("table '" + config_.sink_table + "'"), HasSubstr("--overwrite"),
                                        HasSubstr("--sink-table")));
        other.overwrite = true;
        prepare_run(other);
        process(other, slab_of({"b"}, 1).contents);
        finish_run(other);
        EXPECT_EQ(value("SELECT key FROM " + config_.sink_table), "a");
    }
}

// Obstacles are reported before anything is computed, and later ones before anything is dropped.
TEST_F(EmbeddingsPostgres, DoesNotReplaceATableThatOthersDependOn) {
    const std::string table = config_.sink_table;
    process(config_, slab_of({"a"}, 1).contents);
    note_run(config_, Came::ToItsEnd);
    finish_run(config_);
    config_.overwrite = true;
    const std::string view = "view " + table + "_seen",
                      key = "constraint " + table + "_its on table " + table + "_labels",
                      column = "column label of table " + table;
    const struct {
        std::string make, unmake, obstacle;
    } obstacles[] = {
        {"CREATE VIEW " + table + "_seen AS SELECT key FROM " + table, "DROP VIEW " + table + "_seen", view},
        {"CREATE MATERIALIZED VIEW " + table + "_seen AS SELECT output FROM " + table + "_outputs",
         "DROP MATERIALIZED VIEW " + table + "_seen", "materialized " + view},
        {"CREATE TABLE " + table + "_labels (key text, output text, CONSTRAINT " + table +
             "_its FOREIGN KEY (key, output) REFERENCES " + table + ")",
         "DROP TABLE " + table + "_labels", key},
        {"CREATE FUNCTION " + table + "_of(" + table + ") RETURNS int LANGUAGE sql AS 'SELECT 1'",
         "DROP FUNCTION " + table + "_of", "function " + table + "_of("},
        {"ALTER TABLE " + table + " ADD COLUMN label text", "ALTER TABLE " + table + " DROP COLUMN label", column},
        // A column of a table of texts, which this run did not make.
        {"ALTER TABLE " + table + " ADD COLUMN id bigserial", "ALTER TABLE " + table + " DROP COLUMN id",
         "column id of table " + table},
        {"ALTER TABLE " + table + " ADD COLUMN columns jsonb", "ALTER TABLE " + table + " DROP COLUMN columns",
         "column columns of table " + table},
        {"ALTER TABLE " + table + " ENABLE ROW LEVEL SECURITY", "ALTER TABLE " + table + " DISABLE ROW LEVEL SECURITY",
         "row security of table " + table},
    };
    for (const auto& [make, unmake, obstacle] : obstacles) {
        database_->run(make);
        const Refusal refused = refusal_of([&] { prepare_run(config_); });
        EXPECT_EQ(refused.code, ErrorKind::Usage) << obstacle;
        EXPECT_THAT(refused.text, AllOf(HasSubstr("table '" + table + "'"), HasSubstr(obstacle), HasSubstr("RENAME TO"),
                                        HasSubstr("--sink-table")));
        database_->run(unmake);
        prepare_run(config_);
    }
    process(config_, slab_of({"b"}, 1).contents);
    note_run(config_, Came::ToItsEnd);
    for (const auto& [make, unmake, obstacle] : obstacles) {
        database_->run(make);
        const Refusal refused = refusal_of([&] { finish_run(config_); });
        EXPECT_EQ(refused.code, ErrorKind::Usage) << obstacle;
        EXPECT_THAT(refused.text, AllOf(HasSubstr(obstacle), HasSubstr("--resume")));
        EXPECT_EQ(value("SELECT key FROM " + table), "a");
        database_->run(unmake);
    }
    config_.overwrite = false;
    config_.resume = true;
    prepare_run(config_);
    EXPECT_EQ(value("SELECT key FROM " + table), "b");
}

TEST_F(EmbeddingsPostgres, AReplacingTableKeepsOwnerAndPrivileges) {
    const std::string table = config_.sink_table, reader = table + "_reader", owner = table + "_owner";
    const auto rights = [&](const std::string& of) {
        return value(
            "SELECT coalesce(string_agg(pg_get_userbyid(grantee) || ' ' || privilege_type || ' ' || is_grantable, ', ' "
            "ORDER BY 1), '') || ' ' || (SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = '" +
            of +
            "'::regclass) || (SELECT string_agg(attname || attacl::text, ' ') FROM pg_attribute WHERE attrelid = '" +
            of + "'::regclass AND attacl IS NOT NULL) FROM pg_class, aclexplode(relacl) WHERE oid = '" + of +
            "'::regclass");
    };
    process(config_, slab_of({"a"}, 1).contents);
    note_run(config_, Came::ToItsEnd);
    finish_run(config_);
    for (const std::string& user : {reader, owner}) database_->run("CREATE ROLE " + user);
    database_->run("GRANT ALL ON SCHEMA public TO " + owner);
    for (const std::string& each : {table, table + "_outputs"}) {
        database_->run("ALTER TABLE " + each + " OWNER TO " + owner);
        database_->run("GRANT SELECT ON " + each + " TO " + reader + " WITH GRANT OPTION");
        database_->run("GRANT INSERT ON " + each + " TO PUBLIC");
        database_->run("GRANT UPDATE (output) ON " + each + " TO " + reader);
    }
    database_->run("ALTER DEFAULT PRIVILEGES GRANT DELETE ON TABLES TO " + reader);
    const std::string before = rights(table), before_of_outputs = rights(table + "_outputs");
    EXPECT_THAT(before,
                AllOf(HasSubstr(reader + " SELECT true"), HasSubstr(owner), HasSubstr("output{" + reader + "=w/")));
    config_.overwrite = true;
    prepare_run(config_);
    process(config_, slab_of({"b"}, 1).contents);
    note_run(config_, Came::ToItsEnd);
    finish_run(config_);
    EXPECT_EQ(value("SELECT key FROM " + table), "b");
    EXPECT_EQ(rights(table), before);
    EXPECT_EQ(rights(table + "_outputs"), before_of_outputs);
    database_->run("ALTER DEFAULT PRIVILEGES REVOKE DELETE ON TABLES FROM " + reader);
    clear();
    for (const std::string& user : {reader, owner}) database_->run("DROP OWNED BY " + user);
    for (const std::string& user : {reader, owner}) database_->run("DROP ROLE " + user);
}

TEST_F(EmbeddingsPostgres, ReportsInAdvanceWhatAReplacementDrops) {
    const std::string table = config_.sink_table;
    config_.catalogue.put("index", "hnsw");
    const auto run = [&] {
        process(config_, slab_of({"a"}, 1).contents);
        note_run(config_, Came::ToItsEnd);
        finish_run(config_);
    };
    const auto printed = [&] {
        ::testing::internal::CaptureStdout();
        prepare_run(config_);
        std::fflush(stdout);
        return ::testing::internal::GetCapturedStdout();
    };
    run();
    config_.overwrite = true;
    EXPECT_EQ(printed(), "");
    run();
    EXPECT_EQ(printed(), "");
    database_->run("CREATE INDEX " + table + "_by_item ON " + table + " (item)");
    database_->run("ALTER TABLE " + table + " ADD CONSTRAINT " + table + "_checked CHECK (item >= 0)");
    database_->run("CREATE RULE " + table + "_kept AS ON DELETE TO " + table + " DO INSTEAD NOTHING");
    EXPECT_THAT(printed(), AllOf(HasSubstr("index " + table + "_by_item"),
                                 HasSubstr("constraint " + table + "_checked on table " + table),
                                 HasSubstr("rule " + table + "_kept on table " + table),
                                 HasSubstr("when this run has finished"), ::testing::Not(HasSubstr("_hnsw")),
                                 ::testing::Not(HasSubstr("_pkey")), ::testing::Not(HasSubstr("type "))));
    EXPECT_EQ(value("SELECT count(*) FROM pg_tables WHERE tablename LIKE '%rehearsal%'"), "0");
}

// Tables, keys and indexes have the same names, and no other table is left.
TEST_F(EmbeddingsPostgres, AReplacingTableHasTheUsualNames) {
    const auto catalog = [&] {
        return value(
            "SELECT string_agg(relname || ' ' || relkind::text, ', ' ORDER BY relname) FROM pg_class WHERE relname "
            "LIKE '" +
            config_.sink_table + "%' OR relname LIKE '%offramp_next%'");
    };
    config_.catalogue.put("index", "hnsw");
    process(config_, slab_of({"a"}, 1).contents);
    note_run(config_, Came::ToItsEnd);
    finish_run(config_);
    const std::string made_there = catalog();
    EXPECT_THAT(made_there, AllOf(HasSubstr("_hnsw i"), HasSubstr("_pkey i"), HasSubstr("_outputs r")));
    config_.overwrite = true;
    prepare_run(config_);
    process(config_, slab_of({"b"}, 1).contents);
    note_run(config_, Came::ToItsEnd);
    finish_run(config_);
    EXPECT_EQ(catalog(), made_there);
    EXPECT_EQ(value("SELECT key FROM " + config_.sink_table), "b");
    config_.overwrite = false;
    config_.resume = true;
    prepare_run(config_);
    process(config_, slab_of({"b", "c"}, 1).contents);
    finish_run(config_);
    EXPECT_EQ(value("SELECT count(*) FROM " + config_.sink_table), "2");
}

// Killed after the tables and before the mark, which records the owner: the next run finishes the replacement.
TEST_F(EmbeddingsPostgres, TheNextRunFinishesAnInterruptedReplacement) {
    const auto read = [](const std::string& path) {
        std::ifstream file(path);
        return std::string(std::istreambuf_iterator<char>(file), {});
    };
    const std::string mark = "/.offramp-made-embeddings-postgres";
    process(config_, slab_of({"a"}, 1).contents);
    const std::string previous_mark = read(config_.output + mark);
    config_.overwrite = true;
    prepare_run(config_);
    const std::string next_place = next_place_of(config_.output);
    process(config_, slab_of({"b"}, 1).contents);
    const std::string next_mark = read(folder_in(config_.output, next_place) + mark);
    note_run(config_, Came::ToItsEnd);
    finish_run(config_);
    std::ofstream(config_.output + mark) << previous_mark;
    std::filesystem::create_directory(folder_in(config_.output, next_place));
    std::ofstream(folder_in(config_.output, next_place) + mark) << next_mark;
    config_.overwrite = false;
    config_.resume = true;
    for (int i = 0; i < 2; ++i) {
        prepare_run(config_);
        EXPECT_EQ(read(config_.output + mark), next_mark);
        EXPECT_FALSE(std::filesystem::exists(folder_in(config_.output, next_place)));
        EXPECT_EQ(value("SELECT key FROM " + config_.sink_table), "b");
    }
}

// Two runs were broken off, one after the other, and a third finished.
TEST_F(EmbeddingsPostgres, AReplacingRunRemovesOrphanedTables) {
    std::vector<int> tables;
    std::vector<std::string> next_places;
    const auto count = [&] {
        tables.clear();
        for (const std::string& name : next_places)
            tables.push_back(std::stoi(value("SELECT count(*) FROM pg_tables WHERE tablename LIKE '%" + name + "%'")));
    };
    for (int run = 0; run < 3; ++run) {
        prepare_run(config_);
        if (run > 0) next_places.push_back(next_place_of(config_.output));
        process(config_, slab_of({"a"}, 1).contents);
        note_run(config_, Came::ToAResult);
        finish_run(config_);
        config_.overwrite = true;
    }
    count();
    EXPECT_EQ(tables, (std::vector<int>{0, 2}));
    note_run(config_, Came::ToItsEnd);
    finish_run(config_);
    count();
    EXPECT_EQ(tables, (std::vector<int>{0, 0}));
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
    note_run(config_, Came::ToItsEnd);
    finish_run(config_);
    config_.overwrite = true;
    prepare_run(config_);
    process(config_, slab_of({"a", "another"}, 1).contents);
    note_run(config_, Came::ToItsEnd);
    finish_run(config_);
    EXPECT_EQ(value("SELECT count(*) FROM " + config_.sink_table), "2");
    database_->run("DROP TABLE " + config_.sink_table + ", " + config_.sink_table + "_outputs");
    database_->run("DROP SCHEMA elsewhere");  // nothing is left in it
}

}  // namespace
}  // namespace offramp::test
