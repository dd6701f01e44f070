#include "consumer/sinks/postgres/postgres_database.hpp"

#include <libpq-fe.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "common/base/log.hpp"
#include "consumer/sinks/opened_library.hpp"

namespace offramp {
namespace {

// The calls of libpq, which the first use opens. Errors: ConfigError if it is missing.
struct Libpq {
    decltype(&::PQclear) clear;
    decltype(&::PQconnectPoll) connect_poll;
    decltype(&::PQconnectStartParams) connect_start_params;
    decltype(&::PQconninfoFree) conninfo_free;
    decltype(&::PQconninfoParse) conninfo_parse;
    decltype(&::PQconsumeInput) consume_input;
    decltype(&::PQdb) db;
    decltype(&::PQerrorMessage) error_message;
    decltype(&::PQfinish) finish;
    decltype(&::PQflush) flush;
    decltype(&::PQfreemem) freemem;
    decltype(&::PQgetResult) get_result;
    decltype(&::PQgetisnull) getisnull;
    decltype(&::PQgetvalue) getvalue;
    decltype(&::PQhost) host;
    decltype(&::PQisBusy) is_busy;
    decltype(&::PQnfields) nfields;
    decltype(&::PQntuples) ntuples;
    decltype(&::PQport) port;
    decltype(&::PQputCopyData) put_copy_data;
    decltype(&::PQputCopyEnd) put_copy_end;
    decltype(&::PQresultErrorField) result_error_field;
    decltype(&::PQresultErrorMessage) result_error_message;
    decltype(&::PQresultStatus) result_status;
    decltype(&::PQsendQuery) send_query;
    decltype(&::PQsendQueryParams) send_query_params;
    decltype(&::PQsetErrorVerbosity) set_error_verbosity;
    decltype(&::PQsetNoticeProcessor) set_notice_processor;
    decltype(&::PQsetnonblocking) setnonblocking;
    decltype(&::PQsocket) socket;
    decltype(&::PQstatus) status;
};

Libpq opened_libpq() {
    const OpenedLibrary library({"libpq.so.5"}, "--sink with PostgreSQL",
                                "Install libpq: apt-get install libpq5, dnf install libpq");
    Libpq calls{};
    library.find(calls.clear, "PQclear");
    library.find(calls.connect_poll, "PQconnectPoll");
    library.find(calls.connect_start_params, "PQconnectStartParams");
    library.find(calls.conninfo_free, "PQconninfoFree");
    library.find(calls.conninfo_parse, "PQconninfoParse");
    library.find(calls.consume_input, "PQconsumeInput");
    library.find(calls.db, "PQdb");
    library.find(calls.error_message, "PQerrorMessage");
    library.find(calls.finish, "PQfinish");
    library.find(calls.flush, "PQflush");
    library.find(calls.freemem, "PQfreemem");
    library.find(calls.get_result, "PQgetResult");
    library.find(calls.getisnull, "PQgetisnull");
    library.find(calls.getvalue, "PQgetvalue");
    library.find(calls.host, "PQhost");
    library.find(calls.is_busy, "PQisBusy");
    library.find(calls.nfields, "PQnfields");
    library.find(calls.ntuples, "PQntuples");
    library.find(calls.port, "PQport");
    library.find(calls.put_copy_data, "PQputCopyData");
    library.find(calls.put_copy_end, "PQputCopyEnd");
    library.find(calls.result_error_field, "PQresultErrorField");
    library.find(calls.result_error_message, "PQresultErrorMessage");
    library.find(calls.result_status, "PQresultStatus");
    library.find(calls.send_query, "PQsendQuery");
    library.find(calls.send_query_params, "PQsendQueryParams");
    library.find(calls.set_error_verbosity, "PQsetErrorVerbosity");
    library.find(calls.set_notice_processor, "PQsetNoticeProcessor");
    library.find(calls.setnonblocking, "PQsetnonblocking");
    library.find(calls.socket, "PQsocket");
    library.find(calls.status, "PQstatus");
    return calls;
}

const Libpq& libpq() {
    static const Libpq calls = opened_libpq();
    return calls;
}

constexpr int kPatienceSeconds = 10;
constexpr std::size_t kCopyBytes = std::size_t{1} << 20;
constexpr int kStepMilliseconds = 50;  // between two signs of life

// The reaction to a refusal, by its SQLSTATE (PostgreSQL's appendix A): the whole code, or its class, the first two
// characters.
struct Verdict {
    std::string_view state;
    ErrorKind kind;
    const char* hint;
};
constexpr Verdict kVerdicts[] = {
    {"28P01", ErrorKind::NotPermitted, "Give the password in the URI, in PGPASSWORD or in ~/.pgpass"},
    {"28", ErrorKind::NotPermitted, "Check the user of --sink, and the server's pg_hba.conf"},
    {"3D000", ErrorKind::Usage, "Create it (createdb), or name another one in --sink"},
    {"3F000", ErrorKind::Usage, "Create the schema, or give another --sink-table"},
    {"42501", ErrorKind::NotPermitted, "Grant it to the user of --sink, or name another user"},
    {"53100", ErrorKind::CannotWrite, "Free space on the server's disk, then continue with --resume"},
    {"58030", ErrorKind::CannotWrite, "Check the server's disk, then continue with --resume"},
    {"25006", ErrorKind::CannotWrite, "The server is read-only: name the primary in --sink"},
    {"22P05", ErrorKind::Usage, "Name a database whose encoding is UTF8"},
    {"08", ErrorKind::SinkUnavailable, "Start the server again; completed results are kept"},
    {"40", ErrorKind::SinkUnavailable, ""},
    {"53", ErrorKind::SinkUnavailable, "Give the server more connections or memory, or the run fewer --consumers"},
    {"55", ErrorKind::SinkUnavailable, ""},
    {"57", ErrorKind::SinkUnavailable, "Start the server again; completed results are kept"},
};
constexpr const char* kComeBack = "Check that the server runs and accepts connections; completed results are kept";

Verdict verdict_on(std::string_view state) {
    for (const Verdict& verdict : kVerdicts)
        if (!state.empty() && state.starts_with(verdict.state)) return verdict;
    return {state, ErrorKind::System, "Check that this version of Offramp made the tables"};
}

// The server's message in one line.
std::string in_one_line(std::string text) {
    if (const std::size_t place = text.find("\nLOCATION:"); place != std::string::npos) text.resize(place);
    while (!text.empty() && text.back() == '\n') text.pop_back();
    std::ranges::replace(text, '\n', ' ');
    return text;
}

// With PQERRORS_VERBOSE, a server's refusal to connect begins "FATAL:  28P01: " in every language.
std::string state_in(std::string_view message) {
    const auto is_of_a_state = [](char c) { return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z'); };
    for (std::size_t at = message.find(":  "); at != std::string_view::npos; at = message.find(":  ", at + 1)) {
        const std::string_view state = message.substr(at + 3, 5);
        if (message.substr(at + 8, 2) == ": " && std::ranges::all_of(state, is_of_a_state)) return std::string(state);
    }
    return {};
}

struct FreeOptions {
    void operator()(PQconninfoOption* options) const noexcept { libpq().conninfo_free(options); }
};

}  // namespace

PostgresDatabase::PostgresDatabase(const std::string& sink, std::optional<std::chrono::seconds> patience)
    : patience_(patience) {
    char* problem = nullptr;
    const std::unique_ptr<PQconninfoOption, FreeOptions> parsed(libpq().conninfo_parse(sink.c_str(), &problem));
    libpq().freemem(problem);  // may hold the password
    if (!parsed)
        throw ConfigError("--sink is not a valid PostgreSQL address",
                          "Accepted: postgres://USER:PASSWORD@HOST:PORT/DATABASE, or key words: 'host=/run/postgresql "
                          "dbname=vectors'");
    std::vector<const char*> words;
    std::vector<const char*> values;
    int patience_seconds = kPatienceSeconds;
    const auto say = [&](const char* word, const char* value) {
        words.push_back(word);
        values.push_back(value);
    };
    say("fallback_application_name", "offramp");
    // A dead server machine is detected after a minute and a half, not after hours.
    say("keepalives_idle", "30");
    say("keepalives_interval", "10");
    say("keepalives_count", "6");
    say("tcp_user_timeout", "90000");
    for (const PQconninfoOption* option = parsed.get(); option->keyword != nullptr; ++option) {
        if (option->val == nullptr) continue;
        say(option->keyword, option->val);
        if (std::string_view(option->keyword) == "connect_timeout" && std::atoi(option->val) > 0)
            patience_seconds = std::max(std::atoi(option->val), 2);
    }
    say("client_encoding", "UTF8");
    say(nullptr, nullptr);
    connection_.reset(libpq().connect_start_params(words.data(), values.data(), 0));
    if (!connection_) throw SystemError("connecting to PostgreSQL", ENOMEM);
    const auto text_of = [](const char* text) { return std::string(text == nullptr ? "" : text); };
    const std::string host = text_of(libpq().host(connection_.get()));
    name_ = "PostgreSQL database '" + text_of(libpq().db(connection_.get())) + "' on " +
            (host.empty() ? "localhost" : host) + ":" + text_of(libpq().port(connection_.get()));
    connect(patience_seconds);
    libpq().set_error_verbosity(connection_.get(), PQERRORS_DEFAULT);
    libpq().set_notice_processor(
        connection_.get(), [](void*, const char* notice) { spdlog::debug("PostgreSQL: {}", in_one_line(notice)); },
        nullptr);
    if (libpq().setnonblocking(connection_.get(), 1) != 0) fail("waiting without blocking", nullptr);
    notice_death_of_clients();
}

void PostgresDatabase::Close::operator()(pg_conn* connection) const noexcept { libpq().finish(connection); }
void PostgresDatabase::Clear::operator()(pg_result* result) const noexcept { libpq().clear(result); }

// Connects step by step: only then do the server's refusals include their SQLSTATE.
void PostgresDatabase::connect(int patience_seconds) {
    libpq().set_error_verbosity(connection_.get(), PQERRORS_VERBOSE);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(patience_seconds);
    PostgresPollingStatusType step = PGRES_POLLING_WRITING;
    if (libpq().status(connection_.get()) == CONNECTION_BAD) step = PGRES_POLLING_FAILED;
    while (step == PGRES_POLLING_READING || step == PGRES_POLLING_WRITING) {
        pollfd wanted{.fd = libpq().socket(connection_.get()),
                      .events = static_cast<short>(step == PGRES_POLLING_READING ? POLLIN : POLLOUT),
                      .revents = 0};
        const auto left =
            std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
        if (left <= 0) fail_to_connect("no answer in " + std::to_string(patience_seconds) + " s");
        const int ready = ::poll(&wanted, 1, static_cast<int>(left));
        if (ready < 0 && errno != EINTR) throw SystemError("waiting for " + name_, errno);
        if (ready > 0) step = libpq().connect_poll(connection_.get());
    }
    if (step != PGRES_POLLING_OK) fail_to_connect(libpq().error_message(connection_.get()));
}

void PostgresDatabase::fail_to_connect(const std::string& found) const {
    const std::string state = state_in(found);
    const Verdict verdict = state.empty() ? Verdict{{}, ErrorKind::SinkUnavailable, kComeBack} : verdict_on(state);
    throw PostgresError(verdict.kind, state, name_ + " cannot be connected to: " + in_one_line(found), verdict.hint);
}

void PostgresDatabase::fail(const std::string& tried, const pg_result* result) const {
    const char* given = result == nullptr ? nullptr : libpq().result_error_field(result, PG_DIAG_SQLSTATE);
    const std::string state = given == nullptr ? "" : given;
    const std::string text =
        in_one_line(result != nullptr && given != nullptr ? libpq().result_error_message(result)
                                                          : libpq().error_message(connection_.get()));
    const bool gone = libpq().status(connection_.get()) == CONNECTION_BAD;
    const Verdict verdict = gone ? Verdict{{}, ErrorKind::SinkUnavailable, kComeBack} : verdict_on(state);
    throw PostgresError(verdict.kind, state, name_ + (gone ? " went away: " : ": ") + tried + ": " + text,
                        verdict.hint);
}

// If a client is killed or gives up while its statement waits, the server then releases its locks instead of running
// the statement. Servers before version 14 cannot do this, and not all systems can.
void PostgresDatabase::notice_death_of_clients() {
    try {
        run("SET client_connection_check_interval = '5s'");
    } catch (const PostgresError& error) {
        if (error.sqlstate() != "42704" && error.sqlstate() != "22023") throw;
    }
}

// Waits until the socket has one of the `events`; returns true when there is data to read.
bool PostgresDatabase::wait(short events, const std::string& tried) {
    const auto began = std::chrono::steady_clock::now();
    for (;;) {
        if (progress_ != nullptr) (*progress_)();
        pollfd wanted{.fd = libpq().socket(connection_.get()), .events = events, .revents = 0};
        const int ready = ::poll(&wanted, 1, kStepMilliseconds);
        if (ready < 0 && errno != EINTR) throw SystemError("waiting for " + name_, errno);
        if (ready > 0) return (wanted.revents & ~POLLOUT) != 0;
        if (patience_ && std::chrono::steady_clock::now() - began >= *patience_) give_up(tried);
    }
}

// Closes the connection, because the answer may still arrive on it.
void PostgresDatabase::give_up(const std::string& tried) {
    connection_.reset();
    throw PostgresError(ErrorKind::SinkUnavailable, {},
                        name_ + " has not answered for " + std::to_string(patience_->count()) + " s: " + tried,
                        "Check what it waits for (pg_stat_activity): a lock, a disk? Or raise --sink-patience-seconds; "
                        "completed results are kept");
}

// Reads pending data, because the server may accept none before. The next result reports a broken connection.
void PostgresDatabase::flush(const std::string& tried) {
    while (libpq().flush(connection_.get()) == 1)
        if (wait(POLLIN | POLLOUT, tried) && libpq().consume_input(connection_.get()) == 0) return;
}

PostgresDatabase::Result PostgresDatabase::next_result(const std::string& tried) {
    while (libpq().is_busy(connection_.get()) != 0) {
        wait(POLLIN, tried);
        if (libpq().consume_input(connection_.get()) == 0) break;
    }
    return Result(libpq().get_result(connection_.get()));
}

// The first result of a statement; `sent`: libpq's result of sending it. After the start of a COPY more results follow;
// otherwise no data is left to read.
PostgresDatabase::Result PostgresDatabase::answer(const std::string& tried, int sent) {
    if (sent != 1) fail(tried, nullptr);
    flush(tried);
    Result first = next_result(tried);
    if (libpq().result_status(first.get()) != PGRES_COPY_IN)
        while (next_result(tried)) {
        }
    return first;
}

std::vector<PostgresDatabase::Row> PostgresDatabase::rows(const std::string& sql,
                                                          const std::vector<std::string>& values) {
    std::vector<const char*> texts;
    for (const std::string& value : values) texts.push_back(value.c_str());
    const Result result =
        answer(sql, libpq().send_query_params(connection_.get(), sql.c_str(), static_cast<int>(texts.size()), nullptr,
                                              texts.data(), nullptr, nullptr, 0));
    const ExecStatusType status = libpq().result_status(result.get());
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) fail(sql, result.get());
    std::vector<Row> rows(static_cast<std::size_t>(libpq().ntuples(result.get())));
    for (std::size_t row = 0; row < rows.size(); ++row)
        for (int column = 0; column < libpq().nfields(result.get()); ++column) {
            const int at = static_cast<int>(row);
            if (libpq().getisnull(result.get(), at, column) != 0)
                rows[row].emplace_back();
            else
                rows[row].emplace_back(libpq().getvalue(result.get(), at, column));
        }
    return rows;
}

void PostgresDatabase::copy(const std::string& sql, std::span<const std::byte> bytes) {
    if (const Result begun = answer(sql, libpq().send_query(connection_.get(), sql.c_str()));
        libpq().result_status(begun.get()) != PGRES_COPY_IN)
        fail(sql, begun.get());
    for (; !bytes.empty() && libpq().status(connection_.get()) == CONNECTION_OK;
         bytes = bytes.subspan(std::min(bytes.size(), kCopyBytes))) {
        const auto part = bytes.first(std::min(bytes.size(), kCopyBytes));
        int put = 0;
        while ((put = libpq().put_copy_data(connection_.get(), reinterpret_cast<const char*>(part.data()),
                                            static_cast<int>(part.size()))) == 0)
            flush(sql);
        if (put < 0) break;
        flush(sql);
    }
    // The server reports its own reason at the end.
    while (libpq().put_copy_end(connection_.get(), bytes.empty() ? nullptr : "the rows could not be sent") == 0)
        flush(sql);
    flush(sql);
    Result failed;
    for (Result ended = next_result(sql); ended; ended = next_result(sql)) {
        if (libpq().result_status(ended.get()) != PGRES_COMMAND_OK && !failed) failed = std::move(ended);
        if (libpq().result_status(failed.get()) == PGRES_COPY_IN) break;  // the COPY's end could not be sent
    }
    if (failed || libpq().status(connection_.get()) == CONNECTION_BAD) fail(sql, failed.get());
}

void PostgresDatabase::transact(const std::function<void()>& work) {
    run("BEGIN");
    try {
        work();
        run("COMMIT");
    } catch (...) {
        // A lost connection has ended its transaction.
        if (libpq().status(connection_.get()) == CONNECTION_OK) roll_back();
        throw;
    }
}

void PostgresDatabase::roll_back() {
    try {
        run("ROLLBACK");
    } catch (const Error& error) {
        spdlog::debug("{}", error.what());  // the earlier error is reported
    }
}

std::string quoted_identifier(const std::string& name) {
    std::string quoted = "\"";
    for (const char c : name) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
    return quoted + "\"";
}

}  // namespace offramp
