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

// A refusal by PostgreSQL, with its five-character SQLSTATE; empty when the connection itself failed.
class PostgresError final : public Error {
  public:
    PostgresError(ErrorKind kind, std::string sqlstate, const std::string& problem, const std::string& hint)
        : Error(kind, problem, hint), sqlstate_(std::move(sqlstate)) {}

    const std::string& sqlstate() const noexcept { return sqlstate_; }

  private:
    std::string sqlstate_;
};

// One connection to a PostgreSQL. It is not made anew: a consumer that loses it ends, and is started again. A password
// is never part of name() or of an error.
//
// Owns the connection. Thread: one, and never one side of a fork. Blocks: on the server; while connecting at most
// `connect_timeout` seconds (of the sink, else 10), and later for as long as it has patience with a server by which
// nothing moves. Errors, all PostgresError, but ConfigError for a sink that cannot be understood: SinkUnavailable when
// the server is absent, starting, full of connections, goes away or does not answer, and when another one has what is
// wanted; NotPermitted for a refused password or a missing right; CannotWrite for a full or failing disk and a server
// that only reads; Usage for a database or schema that does not exist; System for everything else.
class PostgresDatabase {
  public:
    // NULL is nothing.
    using Row = std::vector<std::optional<std::string>>;

    // While it lives, `progress` is called whenever the server keeps this thread waiting. Borrows both.
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
    // Missing parts come from libpq's defaults: PGPASSWORD, ~/.pgpass, and so on. `patience`: with a server that
    // neither takes nor sends anything; nothing: for as long as it takes.
    explicit PostgresDatabase(const std::string& sink, std::optional<std::chrono::seconds> patience = std::nullopt);
    PostgresDatabase(const PostgresDatabase&) = delete;
    PostgresDatabase& operator=(const PostgresDatabase&) = delete;

    // "PostgreSQL database 'vectors' on db.example.com:5432", for errors.
    const std::string& name() const { return name_; }

    // Runs one statement, whose $1, $2 are the values, as text.
    std::vector<Row> rows(const std::string& sql, const std::vector<std::string>& values = {});
    void run(const std::string& sql, const std::vector<std::string>& values = {}) { rows(sql, values); }
    // Sends rows in COPY's binary format (CopyRows) to a `COPY ... FROM STDIN (FORMAT binary)`.
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

// `name` as an identifier in SQL.
std::string quoted_identifier(const std::string& name);

}  // namespace offramp
