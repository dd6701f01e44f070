#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/error.hpp"

struct pg_conn;
struct pg_result;

namespace offramp {

// A refusal by PostgreSQL, with its five-character SQLSTATE; the code is empty when the connection itself failed.
class PostgresError final : public Error {
  public:
    PostgresError(ErrorKind kind, std::string sqlstate, const std::string& problem, const std::string& hint)
        : Error(kind, problem, hint), sqlstate_(std::move(sqlstate)) {}

    const std::string& sqlstate() const noexcept { return sqlstate_; }

  private:
    std::string sqlstate_;
};

// One connection to a PostgreSQL server. It never reconnects: a consumer that loses it ends and is restarted. name()
// and errors never contain a password.
//
// Owns the connection. Thread: one; use it on only one side of a fork. Blocks: on the server. Connecting takes at most
// `connect_timeout` seconds (from the sink, else 10); later calls wait up to `patience` without traffic.
//
// Errors: ConfigError for an invalid sink, otherwise PostgresError with one of these kinds. SinkUnavailable: the server
// is absent, starting, out of connections, disconnects or does not answer, or another client holds the resource.
// NotPermitted: the password is refused or a right is missing. CannotWrite: the disk is full or failing, or the server
// is read-only. Usage: the database or schema does not exist. System: everything else.
class PostgresDatabase {
  public:
    // An absent value is NULL.
    using Row = std::vector<std::optional<std::string>>;

    // While this object lives, `progress` is called whenever the server makes this thread wait. Borrows both.
    class ProgressScope {
      public:
        ProgressScope(PostgresDatabase& database, const std::function<void()>& progress) : database_(&database) {
            database.progress_ = &progress;
        }
        ProgressScope(const ProgressScope&) = delete;
        ProgressScope& operator=(const ProgressScope&) = delete;
        ~ProgressScope() { database_->progress_ = nullptr; }

      private:
        PostgresDatabase* database_;
    };

    // `sink`: a URI, postgres://USER:PASSWORD@HOST:PORT/DATABASE, or key words, "host=/run/postgresql dbname=vectors".
    // Missing parts come from libpq's defaults: PGPASSWORD, ~/.pgpass, and so on. `patience`: the longest wait without
    // traffic; unset: no limit.
    explicit PostgresDatabase(const std::string& sink, std::optional<std::chrono::seconds> patience = std::nullopt);
    PostgresDatabase(const PostgresDatabase&) = delete;
    PostgresDatabase& operator=(const PostgresDatabase&) = delete;

    // "PostgreSQL database 'vectors' on db.example.com:5432", for errors.
    const std::string& name() const { return name_; }

    // Runs one statement with `values`, as text, for $1, $2 and so on.
    std::vector<Row> rows(const std::string& sql, const std::vector<std::string>& values = {});
    void run(const std::string& sql, const std::vector<std::string>& values = {}) { rows(sql, values); }
    // Sends rows in COPY's binary format (CopyRows) with `sql`, a `COPY ... FROM STDIN (FORMAT binary)`.
    void copy(const std::string& sql, std::span<const std::byte> bytes);
    // Runs `work` in its own transaction.
    void transact(const std::function<void()>& work);

  private:
    struct Close {
        void operator()(pg_conn* connection) const noexcept;
    };
    struct Clear {
        void operator()(pg_result* result) const noexcept;
    };
    using Result = std::unique_ptr<pg_result, Clear>;

    void connect(int patience_seconds);
    void notice_death_of_clients();
    void roll_back();
    Result answer(const std::string& tried, int sent);
    Result next_result(const std::string& tried);
    void flush(const std::string& tried);
    bool wait(short events, const std::string& tried);
    [[noreturn]] void give_up(const std::string& tried);
    [[noreturn]] void fail(const std::string& tried, const pg_result* result) const;
    [[noreturn]] void fail_to_connect(const std::string& found) const;

    std::string name_;
    std::optional<std::chrono::seconds> patience_;
    const std::function<void()>* progress_ = nullptr;
    std::unique_ptr<pg_conn, Close> connection_;
};

// Quotes `name` as an identifier in SQL.
std::string quoted_identifier(const std::string& name);

}  // namespace offramp
