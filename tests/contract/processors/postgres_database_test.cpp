// Waiting for a PostgreSQL: progress during the wait, and a limit to it.
#include <gmock/gmock.h>

#include <csignal>

#include "consumer/sinks/postgres/copy_rows.hpp"
#include "tests/contract/processors/postgres_test.hpp"

namespace offramp::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class WaitingForPostgres : public PostgresTest {
  protected:
    WaitingForPostgres() : PostgresTest("embeddings-postgres") {}

    void SetUp() override {
        PostgresTest::SetUp();
        if (IsSkipped()) return;
        patient_ = std::make_unique<PostgresDatabase>(config_.sink, std::chrono::minutes(5));
        patient_->run("CREATE TEMPORARY TABLE rows (key text)");
    }

    static CopyRows rows_of(std::size_t count, const std::string& text) {
        CopyRows rows;
        for (std::size_t i = 0; i < count; ++i) {
            rows.begin_row(1);
            rows.text(text);
        }
        return rows;
    }

    static constexpr const char* kCopy = "COPY rows FROM STDIN (FORMAT binary)";
    std::unique_ptr<PostgresDatabase> patient_;
};

TEST_F(WaitingForPostgres, ProgressIsReportedWhileAStatementRuns) {
    std::size_t reports = 0;
    const std::function<void()> progress = [&] { ++reports; };
    {
        const PostgresDatabase::ProgressScope progress_scope(*patient_, progress);
        patient_->run("SELECT pg_sleep(0.5)");
    }
    EXPECT_GE(reports, 3U);
    const std::size_t before = reports;
    patient_->run("SELECT 1");
    EXPECT_EQ(reports, before) << "the scope is over";
}

// More than fits into the connection's buffers.
TEST_F(WaitingForPostgres, RowsArriveWholeAtASlowServer) {
    CopyRows rows = rows_of(300, std::string(100'000, 'r'));
    const pid_t server = std::stoi(patient_->rows("SELECT pg_backend_pid()").at(0).at(0).value());
    std::size_t reports = 0;
    const std::function<void()> progress = [&] {
        if (++reports == 5) ::kill(server, SIGCONT);
    };
    const PostgresDatabase::ProgressScope progress_scope(*patient_, progress);
    const std::unique_ptr<const pid_t, void (*)(const pid_t*)> continued(
        &server, [](const pid_t* pid) { ::kill(*pid, SIGCONT); });
    ASSERT_EQ(::kill(server, SIGSTOP), 0);
    patient_->transact([&] { patient_->copy(kCopy, rows.finished()); });
    EXPECT_GE(reports, 5U);
    EXPECT_EQ(patient_->rows("SELECT count(*), sum(length(key)) FROM rows").at(0),
              (PostgresDatabase::Row{"300", "30000000"}));
}

TEST_F(WaitingForPostgres, GivesUpAfterItsPatienceAndEndsItsServerSession) {
    database_->run("CREATE TABLE " + config_.sink_table + " (a text)");
    PostgresDatabase impatient(config_.sink, std::chrono::seconds(3));
    const std::string waiting = impatient.rows("SELECT pg_backend_pid()").at(0).at(0).value();
    database_->transact([&] {
        database_->run("LOCK TABLE " + config_.sink_table);
        const Refusal refused =
            refusal_of([&] { impatient.transact([&] { impatient.run("SELECT * FROM " + config_.sink_table); }); });
        EXPECT_EQ(refused.code, ErrorKind::SinkUnavailable);
        EXPECT_THAT(refused.text, AllOf(HasSubstr("has not answered for 3 s: SELECT"), HasSubstr("pg_stat_activity"),
                                        HasSubstr("--sink-patience-seconds")));
        const Refusal closed = refusal_of([&] { impatient.run("SELECT 1"); });
        EXPECT_EQ(closed.code, ErrorKind::SinkUnavailable);
        database_->run("SELECT pg_sleep(0.1)");
        while (value("SELECT count(*) FROM pg_stat_activity WHERE pid = " + waiting) != "0")
            database_->run("SELECT pg_stat_clear_snapshot(), pg_sleep(0.1)");
    });
    database_->run("DROP TABLE " + config_.sink_table);
}

TEST_F(WaitingForPostgres, AnErrorOfTheServerLeavesTheConnectionUsable) {
    patient_->run("CREATE TEMPORARY TABLE numbers (a integer)");
    for (const char* copy : {"COPY numbers FROM STDIN (FORMAT binary)", "COPY nowhere FROM STDIN (FORMAT binary)"}) {
        CopyRows rows = rows_of(3, "no number of four bytes");
        EXPECT_NE(refusal_of([&] { patient_->transact([&] { patient_->copy(copy, rows.finished()); }); }).text,
                  "no error");
        EXPECT_EQ(patient_->rows("SELECT count(*) FROM numbers").at(0), (PostgresDatabase::Row{"0"}));
    }
    EXPECT_THAT(refusal_of([&] { patient_->transact([&] { patient_->run("SELECT 1 / 0"); }); }).text,
                HasSubstr("division by zero"));
    EXPECT_EQ(patient_->rows("SELECT 1").at(0), (PostgresDatabase::Row{"1"}));
}

}  // namespace
}  // namespace offramp::test
