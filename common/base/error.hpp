#pragma once

#include <exception>
#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>

#include "common/base/error_kind.hpp"

namespace offramp {

// Three kinds of failure have three tools. For a caller's bug, use expect(). For a broken environment, throw one of the
// exceptions below. For a normal outcome (no free slab, stale ticket), use a return value.

// The base of every exception that Offramp throws on purpose. what() is one line, "tried: found. hint": the attempt
// with its values, and the fix. kind() is the kind of failure.
class Error : public std::runtime_error {
  public:
    Error(ErrorKind kind, const std::string& problem, const std::string& hint = {});

    ErrorKind kind() const noexcept { return kind_; }

  private:
    ErrorKind kind_;
};

// A system call failed. Appends strerror(errno_value) and the number.
class SystemError : public Error {
  public:
    SystemError(const std::string& tried, int errno_value, const std::string& hint = {},
                ErrorKind kind = ErrorKind::System);

    int errno_value() const noexcept { return errno_value_; }

  private:
    int errno_value_;
};

// A setting cannot be used. The text names the setting, the value, and the accepted values.
class ConfigError : public Error {
  public:
    explicit ConfigError(const std::string& problem, const std::string& hint = {}, ErrorKind kind = ErrorKind::Usage)
        : Error(kind, problem, hint) {}
};

// Bytes from a peer or a shared region do not match the layout: wrong version, magic or bound.
class ProtocolError : public Error {
  public:
    explicit ProtocolError(const std::string& problem, const std::string& hint = {},
                           ErrorKind kind = ErrorKind::Protocol)
        : Error(kind, problem, hint) {}
};

[[noreturn]] void fail_expectation(std::string_view contract, std::source_location where);

// Aborts the process if a caller broke a contract. Always enabled: a run must not continue after a slab was handed out
// twice. In libofframp.so, which runs in a user's process, it throws an Error (Internal) instead, which ends the call,
// or the thread's run.
inline void expect(bool holds, std::string_view contract,
                   std::source_location where = std::source_location::current()) {
    if (holds) [[likely]]
        return;
    fail_expectation(contract, where);
}

// The text of another thread's exception, for a status page or a log. `error` must not be null.
std::string exception_text(const std::exception_ptr& error);

}  // namespace offramp
