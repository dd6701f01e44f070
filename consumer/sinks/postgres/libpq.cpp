#include "consumer/sinks/postgres/libpq.hpp"

#include "consumer/sinks/opened_library.hpp"

namespace offramp {
namespace {

Libpq opened() {
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

}  // namespace

const Libpq& libpq() {
    static const Libpq calls = opened();
    return calls;
}

}  // namespace offramp
