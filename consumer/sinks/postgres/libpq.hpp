#pragma once

#include <libpq-fe.h>

namespace offramp {

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

const Libpq& libpq();

}  // namespace offramp
