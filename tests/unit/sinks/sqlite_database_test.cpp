#include "consumer/sinks/sqlite/sqlite_database.hpp"

#include <gmock/gmock.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <utility>

#include "common/base/error.hpp"
#include "consumer/processors/results/outputs_of_run.hpp"
#include "consumer/sinks/sqlite/output_database.hpp"
#include "tests/contract/processors/processor_world.hpp"

namespace offramp {
namespace {

using test::ScratchFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;

struct Refusal {
    ErrorKind code = ErrorKind::None;
    std::string text;
};

template <class Work>
Refusal refusal_of(Work&& work) {
    try {
        work();
    } catch (const Error& error) {
        return {error.kind(), error.what()};
    }
    return {};
}

std::int64_t number(SqliteDatabase& database, const std::string& question) {
    SqliteStatement statement(database, question);
    return statement.step() ? statement.number(0) : -1;
}

// Another program with an open connection to the database.
class Stranger {
  public:
    explicit Stranger(const std::string& path) { EXPECT_EQ(sqlite3_open(path.c_str(), &connection_), SQLITE_OK); }
    ~Stranger() { sqlite3_close(connection_); }
    Stranger(const Stranger&) = delete;
    Stranger& operator=(const Stranger&) = delete;
    void execute(const char* sql) {
        EXPECT_EQ(sqlite3_exec(connection_, sql, nullptr, nullptr, nullptr), SQLITE_OK) << sql;
    }

  private:
    sqlite3* connection_ = nullptr;
};

TEST(SqliteDatabase, ATransactionIsAllOrNothing) {
    const ScratchFolder folder;
    SqliteDatabase database(folder.path() + "/d.sqlite", Durability::Process);
    database.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, b BLOB, c TEXT)");
    const std::byte bytes[] = {std::byte{0}, std::byte{255}};
    const auto add = [&](std::int64_t a) {
        database.prepared("INSERT INTO t VALUES (?, ?, ?)")
            .bind(1, a)
            .bind_bytes(2, bytes)
            .bind(3, std::string_view("x\0y", 3))
            .run();
    };
    database.transact([&] {
        add(1);
        add(2);
    });
    EXPECT_THROW(database.transact([&] {
        add(3);
        throw std::runtime_error("in the middle");
    }),
                 std::runtime_error);
    EXPECT_EQ(refusal_of([&] {
                  database.transact([&] {
                      add(4);
                      add(1);
                  });
              }).code,
              ErrorKind::System);
    EXPECT_EQ(number(database, "SELECT sum(a) FROM t"), 3);
    EXPECT_EQ(number(database, "SELECT count(*) FROM t WHERE length(b) = 2 AND length(CAST(c AS BLOB)) = 3"), 2);
    database.transact([&] { add(3); });
    EXPECT_EQ(number(database, "SELECT sum(a) FROM t"), 6);
}

TEST(SqliteDatabase, SurvivesAPowerCutWhenAsked) {
    const ScratchFolder folder;
    SqliteDatabase careless(folder.path() + "/a.sqlite", Durability::Process);
    SqliteDatabase careful(folder.path() + "/b.sqlite", Durability::PowerCut);
    EXPECT_EQ(number(careless, "PRAGMA synchronous"), 1);
    EXPECT_EQ(number(careful, "PRAGMA synchronous"), 3);
}

TEST(SqliteDatabase, AWriterWaitsForAnotherThenReportsIt) {
    const ScratchFolder folder;
    const std::string path = folder.path() + "/d.sqlite";
    SqliteDatabase database(path, Durability::Process, std::chrono::milliseconds(30));
    database.execute("CREATE TABLE t (a)");
    Stranger other(path);
    other.execute("BEGIN IMMEDIATE");
    const auto write = [&] { database.transact([&] { database.execute("INSERT INTO t VALUES (1)"); }); };
    const Refusal refused = refusal_of(write);
    EXPECT_EQ(refused.code, ErrorKind::SinkUnavailable);
    EXPECT_THAT(refused.text, AllOf(HasSubstr(path), HasSubstr("kept locked by another program"), HasSubstr("30 ms")));
    other.execute("COMMIT");
    EXPECT_NO_THROW(write());
    EXPECT_EQ(number(database, "SELECT count(*) FROM t"), 1);
}

TEST(SqliteDatabase, BeginWaitsForAnotherThenReportsIt) {
    for (const char* const lock : {"BEGIN EXCLUSIVE", "BEGIN IMMEDIATE"}) {
        const ScratchFolder folder;
        const std::string path = folder.path() + "/d.sqlite";
        Stranger other(path);
        other.execute("CREATE TABLE t (a)");  // without a log
        other.execute(lock);
        const auto begin = [&] { SqliteDatabase(path, Durability::Process, std::chrono::milliseconds(30)); };
        const Refusal refused = refusal_of(begin);
        EXPECT_EQ(refused.code, ErrorKind::SinkUnavailable);
        EXPECT_THAT(refused.text, AllOf(HasSubstr(path), HasSubstr("starting its log waited 30 ms")));
        other.execute("COMMIT");
        EXPECT_NO_THROW(begin());
    }
}

TEST(SqliteDatabase, DetectsAMovedOrRemovedFile) {
    const ScratchFolder folder;
    const std::string path = folder.path() + "/d.sqlite";
    for (const bool moved : {true, false}) {
        SqliteDatabase database(path, Durability::Process);
        database.execute("CREATE TABLE IF NOT EXISTS t (a)");
        if (moved)
            std::filesystem::rename(path, folder.path() + "/elsewhere");
        else
            std::filesystem::remove(path);
        const Refusal refused =
            refusal_of([&] { database.transact([&] { database.execute("INSERT INTO t VALUES (1)"); }); });
        EXPECT_EQ(refused.code, ErrorKind::SinkUnavailable);
        EXPECT_THAT(refused.text, AllOf(HasSubstr(path), HasSubstr("moved or removed")));
        if (moved) std::filesystem::rename(folder.path() + "/elsewhere", path);
    }
}

TEST(SqliteDatabase, AFullDiskIsAnErrorWithoutDamage) {
    const ScratchFolder folder;
    SqliteDatabase database(folder.path() + "/d.sqlite", Durability::Process);
    database.execute("CREATE TABLE t (a BLOB)");
    database.execute("INSERT INTO t VALUES (zeroblob(100))");
    database.execute("PRAGMA max_page_count = 4");
    const Refusal refused =
        refusal_of([&] { database.transact([&] { database.execute("INSERT INTO t VALUES (zeroblob(1000000))"); }); });
    EXPECT_EQ(refused.code, ErrorKind::CannotWrite);
    EXPECT_THAT(refused.text, AllOf(HasSubstr("d.sqlite"), HasSubstr("No space left on device")));
    EXPECT_EQ(number(database, "SELECT count(*) FROM t"), 1);
    database.execute("PRAGMA max_page_count = 1000000");
    EXPECT_NO_THROW(database.transact([&] { database.execute("INSERT INTO t VALUES (1)"); }));
}

TEST(SqliteDatabase, RefusesOtherFilesAndUnopenableOnes) {
    const ScratchFolder folder;
    const std::string path = folder.path() + "/d.sqlite";
    std::ofstream(path) << std::string(5000, 'x');
    Refusal refused = refusal_of([&] { SqliteDatabase(path, Durability::Process); });
    EXPECT_EQ(refused.code, ErrorKind::CannotWrite);
    EXPECT_THAT(refused.text, AllOf(HasSubstr(path), HasSubstr("not a database")));
    for (const std::string& nowhere : {folder.path(), folder.path() + "/no/such/folder.sqlite"}) {
        refused = refusal_of([&] { SqliteDatabase(nowhere, Durability::Process); });
        EXPECT_EQ(refused.code, ErrorKind::CannotWrite);
        EXPECT_THAT(refused.text, HasSubstr(nowhere));
    }
}

TEST(SqliteDatabase, ClosingTheLogLeavesOneFile) {
    const ScratchFolder folder;
    const std::string path = folder.path() + "/d.sqlite";
    {
        SqliteDatabase database(path, Durability::Process);
        database.execute("CREATE TABLE t (a)");
        EXPECT_TRUE(std::filesystem::exists(path + "-wal"));
        Stranger reader(path);
        reader.execute("BEGIN; SELECT * FROM t");
        EXPECT_NO_THROW(database.close_log()) << "another program is reading";
    }
    SqliteDatabase(path, Durability::Process).close_log();
    EXPECT_FALSE(std::filesystem::exists(path + "-wal"));
    EXPECT_FALSE(std::filesystem::exists(path + "-shm"));
}

// --- the database of an output folder ---

constexpr const char* kSchema = "CREATE TABLE t (a INTEGER PRIMARY KEY)";

void add(OutputDatabase& database, std::int64_t a) {
    database.transact([&](SqliteDatabase& rows) { rows.prepared("INSERT INTO t VALUES (?)").bind(1, a).run(); });
}

TEST(OutputDatabase, IsCreatedByTheFirstOfConcurrentWriters) {
    const ScratchFolder folder;
    OutputDatabase unused(folder.path(), "rows", kSchema, Durability::Process);
    EXPECT_TRUE(test::read_tree(folder.path()).empty());
    constexpr int kWriters = 8;
    constexpr int kRows = 200;
    std::vector<pid_t> writers;
    for (int writer = 0; writer < kWriters; ++writer) {
        writers.push_back(::fork());
        if (writers.back() != 0) continue;
        const Refusal refused = refusal_of([&] {
            OutputDatabase own(folder.path(), "rows", kSchema, Durability::Process);
            for (int row = 0; row < kRows; ++row) add(own, writer * kRows + row);
        });
        if (refused.code != ErrorKind::None) std::fprintf(stderr, "%s\n", refused.text.c_str());
        ::_exit(to_int(refused.code));
    }
    for (const pid_t writer : writers) {
        int status = -1;
        EXPECT_EQ(::waitpid(writer, &status, 0), writer);
        EXPECT_EQ(status, 0);
    }
    finish_database(folder.path(), "rows");
    SqliteDatabase database(folder.path() + "/rows.sqlite", Durability::Process);
    EXPECT_EQ(number(database, "SELECT count(*) FROM t"), kWriters * kRows);
}

TEST(OutputDatabase, WaitsForADatabaseThatWasTakenAway) {
    const ScratchFolder folder;
    const std::string path = folder.path() + "/rows.sqlite";
    {
        OutputDatabase database(folder.path(), "rows", kSchema, Durability::Process);
        add(database, 1);
    }
    OutputDatabase late(folder.path() + "/other", "rows", kSchema, Durability::Process);
    std::filesystem::rename(path, folder.path() + "/away");
    const auto open = [&] { OutputDatabase(folder.path(), "rows", kSchema, Durability::Process); };
    for (int i = 0; i < 2; ++i) {
        const Refusal refused = i == 0 ? refusal_of(open) : refusal_of([&] { finish_database(folder.path(), "rows"); });
        EXPECT_EQ(refused.code, ErrorKind::SinkUnavailable);
        EXPECT_THAT(refused.text, AllOf(HasSubstr(path), HasSubstr("is gone"), HasSubstr("Put it back")));
    }
    EXPECT_FALSE(std::filesystem::exists(path));
    std::filesystem::rename(folder.path() + "/away", path);
    OutputDatabase back(folder.path(), "rows", kSchema, Durability::Process);
    EXPECT_NO_THROW(add(back, 2));
}

// It does not return by itself.
TEST(OutputDatabase, RefusesADatabaseWithoutItsTable) {
    const ScratchFolder folder;
    OutputDatabase database(folder.path(), "rows", kSchema, Durability::Process);
    add(database, 1);
    Stranger(folder.path() + "/rows.sqlite").execute("DROP TABLE t");
    const Refusal refused = refusal_of([&] { add(database, 2); });
    EXPECT_EQ(refused.code, ErrorKind::Usage);
    EXPECT_THAT(refused.text, AllOf(HasSubstr("rows.sqlite"), HasSubstr("no such table: t"),
                                    HasSubstr("--overwrite instead of --resume")));
}

TEST(OutputDatabase, RefusesAnotherDatabaseInItsPlace) {
    const ScratchFolder folder, other;
    const std::string path = folder.path() + "/rows.sqlite";
    const auto begin = [](const std::string& in) {
        OutputDatabase database(in, "rows", kSchema, Durability::Process);
        add(database, 1);
    };
    for (const std::string& each : {folder.path(), other.path()}) {
        begin(each);
        finish_database(each, "rows");  // its log is empty
    }
    std::filesystem::rename(path, folder.path() + "/away");
    for (const bool empty : {false, true}) {
        if (empty)
            std::ofstream(path, std::ios::trunc) << "";
        else
            std::filesystem::copy_file(other.path() + "/rows.sqlite", path);
        for (const bool ends : {false, true}) {
            const Refusal refused =
                refusal_of([&] { ends ? finish_database(folder.path(), "rows") : begin(folder.path()); });
            EXPECT_EQ(refused.code, ErrorKind::Usage);
            EXPECT_THAT(refused.text,
                        AllOf(HasSubstr(path), HasSubstr("not the one that this run began"),
                              HasSubstr("--overwrite instead of --resume"), HasSubstr(".offramp-made-rows")));
        }
        SqliteDatabase there = SqliteDatabase::opened_to_read(path);
        EXPECT_EQ(number(there, "SELECT count(*) FROM sqlite_master"), empty ? 0 : 2);
    }
    std::filesystem::remove(path);
    std::filesystem::rename(folder.path() + "/away", path);
    OutputDatabase back(folder.path(), "rows", kSchema, Durability::Process);
    EXPECT_NO_THROW(add(back, 2));
    EXPECT_NO_THROW(finish_database(folder.path(), "rows"));
}

// A restored backup: by a consumer that had it open, by one that starts now, and by the end of the run.
TEST(OutputDatabase, RefusesAnOlderCopyAndContinuesTheNewer) {
    const ScratchFolder folder;
    const std::string path = folder.path() + "/rows.sqlite", older = folder.path() + "/older";
    const auto begin = [&](std::int64_t row) {
        OutputDatabase database(folder.path(), "rows", kSchema, Durability::Process);
        add(database, row);
    };
    const auto bring_to_the_file = [&] { finish_database(folder.path(), "rows"); };
    begin(1);
    bring_to_the_file();
    std::filesystem::copy_file(path, older);
    for (int row = 2; row < 6; ++row) begin(row);  // by several consumers
    bring_to_the_file();
    OutputDatabase open_already(folder.path(), "rows", kSchema, Durability::Process);
    add(open_already, 6);
    const auto expect_refused = [&](const char* how) {
        for (const bool ends : {false, true}) {
            const Refusal refused = refusal_of([&] { ends ? finish_database(folder.path(), "rows") : begin(7); });
            EXPECT_EQ(refused.code, ErrorKind::Usage) << how << ends;
            EXPECT_THAT(refused.text, AllOf(HasSubstr(path), HasSubstr("older copy"), HasSubstr(".offramp-made-rows")));
        }
        EXPECT_NE(refusal_of([&] { add(open_already, 8); }).code, ErrorKind::None) << how;
    };
    // Beside it is the log of the newer one, with the last rows but without those already checkpointed.
    std::filesystem::copy_file(older, path, std::filesystem::copy_options::overwrite_existing);
    expect_refused("its bytes");
    std::filesystem::copy_file(older, folder.path() + "/next");
    std::filesystem::rename(folder.path() + "/next", path);
    expect_refused("its file");
    for (const char* end : {"-wal", "-shm"}) std::filesystem::remove(path + end);
    expect_refused("without a log");
}

TEST(OutputDatabase, CountsCommitsOfAllWritersDespiteADeath) {
    const ScratchFolder folder;
    const std::string mark = folder.path() + "/.offramp-made-rows";
    OutputDatabase one(folder.path(), "rows", kSchema, Durability::Process);
    OutputDatabase other(folder.path(), "rows", kSchema, Durability::Process);
    for (int i = 0; i < 3; ++i) {
        add(one, 2 * i);
        add(other, 2 * i + 1);
    }
    const auto text_of_mark = [&] {
        std::ifstream file(mark);
        return std::string(std::istreambuf_iterator<char>(file), {});
    };
    const std::string behind = text_of_mark();
    EXPECT_THAT(behind, HasSubstr(" 00000000000000000006 "));
    add(one, 10);
    std::ofstream(mark) << behind;  // the consumer died before noting its commit
    EXPECT_NO_THROW(add(other, 11));
    EXPECT_THAT(text_of_mark(), HasSubstr(" 00000000000000000008 "));
    // From a version without a count, or from before the machine restarted.
    for (const std::string& text :
         {behind.substr(0, behind.find(' ')) + "\n",
          behind.substr(0, behind.find(' ')) + " 00000000000000000999 00000000000000000999 another-boot\n"}) {
        std::ofstream(mark) << text;
        OutputDatabase later(folder.path(), "rows", kSchema, Durability::Process);
        EXPECT_NO_THROW(add(later, 20 + static_cast<std::int64_t>(text.size())));
        EXPECT_THAT(text_of_mark(), testing::Not(HasSubstr("another-boot")));
    }
    EXPECT_NO_THROW(finish_database(folder.path(), "rows"));
}

TEST(OutputDatabase, RefusesAForeignDatabase) {
    const ScratchFolder folder;
    const auto refused = [&] {
        return refusal_of([&] { OutputDatabase(folder.path(), "rows", kSchema, Durability::Process); });
    };
    Stranger(folder.path() + "/rows.sqlite").execute("CREATE TABLE t (a INTEGER PRIMARY KEY)");
    EXPECT_EQ(refused().code, ErrorKind::Usage);
    EXPECT_THAT(refused().text, HasSubstr("made by another program"));
    Stranger(folder.path() + "/rows.sqlite").execute("PRAGMA application_id = 1330005586; PRAGMA user_version = 99");
    EXPECT_THAT(refused().text, AllOf(HasSubstr("tables of version 99"), HasSubstr("supports 1")));
}

// --- a new run in a folder with files ---

std::string bytes_of(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

// Every file with its bytes, including the side files of databases.
std::map<std::string, std::string> files_in(const std::string& folder) {
    std::map<std::string, std::string> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
        if (entry.is_regular_file())
            files[std::filesystem::relative(entry.path(), folder).string()] = bytes_of(entry.path());
    return files;
}

void copy_files(const std::string& from, const std::string& to) {
    std::filesystem::copy(from, to, std::filesystem::copy_options::recursive);
}

TEST(Overwrite, KeepsAndReportsAForeignDatabase) {
    for (const auto& [processor, path] :
         {std::pair("records", "records.sqlite"), std::pair("embeddings-sqlite", "embeddings.sqlite"),
          std::pair("checksum,records", "records/records.sqlite")}) {
        const ScratchFolder folder;
        const RunConfig config = test::config_for(processor, folder.path());
        const std::string database = folder.path() + "/" + path;
        std::filesystem::create_directories(std::filesystem::path(database).parent_path());
        Stranger(database).execute("CREATE TABLE t (a); INSERT INTO t VALUES ('precious'); PRAGMA application_id = 7");
        std::ofstream(folder.path() + "/.offramp-checkpoint") << "of an earlier run";
        const auto before = files_in(folder.path());
        const Refusal refused = refusal_of([&] { prepare_run(config); });
        EXPECT_EQ(refused.code, ErrorKind::Usage) << processor;
        EXPECT_THAT(refused.text, AllOf(HasSubstr(database), HasSubstr("made by another program"),
                                        HasSubstr("Move it away"), HasSubstr("--output")));
        EXPECT_TRUE(files_in(folder.path()) == before) << processor;
    }
}

TEST(Overwrite, KeepsAnothersWritesToTheLog) {
    const ScratchFolder making;
    const ScratchFolder folder;
    {
        Stranger other(making.path() + "/records.sqlite");
        other.execute("PRAGMA journal_mode = WAL; CREATE TABLE t (a); INSERT INTO t VALUES ('precious')");
        copy_files(making.path(), folder.path());  // the state after a kill
    }
    // A mark records that a database was created here, not that this one is it.
    std::ofstream(folder.path() + "/.offramp-made-records") << "";
    auto before = files_in(folder.path());
    EXPECT_THAT(before["records.sqlite-wal"], HasSubstr("precious"));
    EXPECT_EQ(refusal_of([&] { prepare_run(test::config_for("records", folder.path())); }).code, ErrorKind::Usage);
    auto after = files_in(folder.path());
    // an index of the log, in which readers note themselves
    for (auto* files : {&before, &after}) files->erase("records.sqlite-shm");
    EXPECT_TRUE(after == before);
    EXPECT_TRUE(std::filesystem::exists(folder.path() + "/records.sqlite-shm"));
}

TEST(Overwrite, KeepsAnothersUnfinishedTransaction) {
    const auto expect_kept = [](const std::string& folder, const std::string& how) {
        const auto before = files_in(folder);
        EXPECT_EQ(before.count("records.sqlite-journal"), 1U);
        EXPECT_THAT(refusal_of([&] { prepare_run(test::config_for("records", folder)); }).text,
                    HasSubstr("made by another program"))
            << how;
        EXPECT_TRUE(files_in(folder) == before) << how;
    };
    for (const auto& [contents, change] :
         {std::pair("CREATE TABLE t (a); INSERT INTO t VALUES ('precious')", "DELETE FROM t"),
          std::pair("CREATE VIEW precious AS SELECT 1", "DROP VIEW precious")}) {
        const ScratchFolder making, begun, committing;
        Stranger other(making.path() + "/records.sqlite");
        other.execute("PRAGMA synchronous = OFF");
        other.execute(contents);
        other.execute("BEGIN IMMEDIATE");
        other.execute(change);
        copy_files(making.path(), begun.path());  // the states after a kill
        copy_files(making.path(), committing.path());
        other.execute("COMMIT");
        std::filesystem::copy_file(making.path() + "/records.sqlite", committing.path() + "/records.sqlite",
                                   std::filesystem::copy_options::overwrite_existing);
        expect_kept(committing.path(), std::string("killed while it committed ") + change);
        expect_kept(begun.path(), std::string("killed before it committed ") + change);
        std::filesystem::resize_file(begun.path() + "/records.sqlite-journal", 512);
        expect_kept(begun.path(), std::string("killed when it began ") + change);
    }
}

TEST(Overwrite, KeepsAndReportsAnotherFile) {
    const ScratchFolder folder;
    const std::string path = folder.path() + "/records.sqlite";
    const auto refused = [&] { return refusal_of([&] { prepare_run(test::config_for("records", folder.path())); }); };
    for (const std::string& text : {std::string("notes"), std::string(5000, 'x')}) {
        std::ofstream(path, std::ios::trunc) << text;
        EXPECT_EQ(refused().code, ErrorKind::Usage);
        EXPECT_THAT(refused().text, AllOf(HasSubstr(path), HasSubstr("made by another program")));
        EXPECT_EQ(bytes_of(path), text);
    }
    std::filesystem::rename(path, path + "-wal");  // the database was moved away
    EXPECT_THAT(refused().text, HasSubstr(path + "-wal"));
    EXPECT_TRUE(std::filesystem::exists(path + "-wal"));
    std::filesystem::remove(path + "-wal");
    std::filesystem::create_directory(path);
    EXPECT_THAT(refused().text, HasSubstr(path));
    EXPECT_TRUE(std::filesystem::is_directory(path));
}

// After a killed run, all rows and the ownership of the database are only in its log.
TEST(Overwrite, KnowsOfframpsFilesInAnyStateAndKeepsThem) {
    const ScratchFolder making;
    const auto expect_kept = [&](const char* how,
                                 const std::function<void(const std::string& folder, const std::string& path)>& leave) {
        const ScratchFolder folder;
        leave(folder.path(), folder.path() + "/records.sqlite");
        const auto kept = [&] {
            auto files = files_in(folder.path());
            files.erase("records.sqlite-shm");  // an index of the log, in which readers note themselves
            return files;
        };
        const auto before = kept();
        for (const bool overwrite : {false, true}) {  // the launcher renames the folder first
            RunConfig config = test::config_for("records", folder.path());
            config.overwrite = overwrite;
            EXPECT_THAT(refusal_of([&] { prepare_run(config); }).text,
                        HasSubstr("records.sqlite holds the results of an earlier run"))
                << how;
        }
        EXPECT_TRUE(kept() == before) << how;
    };
    OutputDatabase database(making.path(), "records", kSchema, Durability::Process);
    add(database, 1);
    const auto lay_own = [&](const std::string& folder) { copy_files(making.path(), folder); };
    expect_kept("killed", [&](const std::string& folder, const std::string& path) {
        lay_own(folder);
        EXPECT_EQ(bytes_of(path).substr(68, 4), std::string(4, '\0'));
    });
    expect_kept("damaged", [&](const std::string& folder, const std::string& path) {
        {
            OutputDatabase another(folder, "records", kSchema, Durability::Process);
            add(another, 1);
        }
        finish_database(folder, "records");
        EXPECT_EQ(bytes_of(path).substr(68, 4), "OFFR");
        std::filesystem::resize_file(path, 5000);
    });
    expect_kept("of another version of this program", [&](const std::string& folder, const std::string& path) {
        lay_own(folder);
        Stranger(path).execute("PRAGMA user_version = 99");
    });
    expect_kept("killed before anything stood in it",
                [](const std::string&, const std::string& path) { std::ofstream(path) << ""; });
    expect_kept("killed before it had its log", [](const std::string& folder, const std::string&) {
        const ScratchFolder begun;
        Stranger maker(begun.path() + "/records.sqlite");
        maker.execute("PRAGMA synchronous = OFF; PRAGMA user_version = 1; BEGIN IMMEDIATE; PRAGMA user_version = 2");
        copy_files(begun.path(), folder);
        EXPECT_TRUE(std::filesystem::exists(folder + "/records.sqlite-journal"));
        const ScratchFolder read;
        copy_files(folder, read.path());
        SqliteDatabase copy = SqliteDatabase::opened_to_read(read.path() + "/records.sqlite");
        EXPECT_THROW(number(copy, "PRAGMA user_version"), Error) << "SQLite reads it without a write";
    });
    expect_kept("removed in part", [](const std::string& folder, const std::string&) {
        for (const char* left : {"records.sqlite-wal", ".offramp-made-records"})
            std::ofstream(folder + "/" + left) << "";
    });
}

// Between the steps of a replacement: a call killed there is finished by the next one.
TEST(PutDatabaseInPlace, IsFinishedByAnotherCall) {
    for (const std::string moved : {"", ".offramp-made-rows", "rows.sqlite"}) {
        const ScratchFolder folder, next;
        {
            OutputDatabase database(folder.path(), "rows", kSchema, Durability::Process);
            add(database, 1);
        }
        {
            OutputDatabase database(next.path(), "rows", kSchema, Durability::Process);
            add(database, 2);
        }
        for (const std::string& each : {folder.path(), next.path()}) finish_database(each, "rows");
        const auto wanted = files_in(next.path());
        if (!moved.empty())
            std::filesystem::rename(next.path() + "/.offramp-made-rows", folder.path() + "/.offramp-made-rows");
        if (moved == "rows.sqlite")
            std::filesystem::rename(next.path() + "/rows.sqlite", folder.path() + "/rows.sqlite");
        EXPECT_EQ(put_database_in_place(next.path(), folder.path(), "rows"), moved != "rows.sqlite");
        EXPECT_FALSE(put_database_in_place(next.path(), folder.path(), "rows"));
        EXPECT_TRUE(files_in(folder.path()) == wanted) << moved;
        EXPECT_TRUE(files_in(next.path()).empty());
    }
}

TEST(PutDatabaseInPlace, KeepsForeignDatabasesAndWaitsForReaders) {
    const ScratchFolder folder, next;
    OutputDatabase database(next.path(), "rows", kSchema, Durability::Process);
    add(database, 2);
    EXPECT_EQ(refusal_of([&] { put_database_in_place(next.path(), folder.path(), "rows"); }).code,
              ErrorKind::SinkUnavailable)
        << "its log is there";
    const ScratchFolder copied;
    {
        OutputDatabase whole(copied.path(), "rows", kSchema, Durability::Process);
        add(whole, 2);
    }
    finish_database(copied.path(), "rows");
    Stranger(folder.path() + "/rows.sqlite").execute("CREATE TABLE t (a); INSERT INTO t VALUES ('precious')");
    const auto before = files_in(folder.path());
    EXPECT_EQ(refusal_of([&] { put_database_in_place(copied.path(), folder.path(), "rows"); }).code, ErrorKind::Usage);
    EXPECT_TRUE(files_in(folder.path()) == before);
}

}  // namespace
}  // namespace offramp
