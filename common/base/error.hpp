#pragma once

#include <exception>
#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>

#include "common/base/error_kind.hpp"

namespace offramp {

// Three kinds of failure, three tools: a caller's bug is expect(), a broken environment is one of the exceptions below,
// a normal outcome (no free slab, stale ticket) is a return value.

// States the attempt, with the values, and the fix. Base of every exception that the project throws on purpose. The
// what() text is "tried: found. hint" in one line; kind() is the kind of failure.
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

// A setting cannot be used: names the setting, the value, what is accepted.
class ConfigError : public Error {
  public:
    explicit ConfigError(const std::string& problem, const std::string& hint = {}, ErrorKind kind = ErrorKind::Usage)
        : Error(kind, problem, hint) {}
};

// Bytes from a peer or a shared region do not match the layout: another version, magic or bound.
class ProtocolError : public Error {
  public:
    explicit ProtocolError(const std::string& problem, const std::string& hint = {},
                           ErrorKind kind = ErrorKind::Protocol)
        : Error(kind, problem, hint) {}
};

[[noreturn]] void fail_expectation(std::string_view contract, std::source_location where);

// Ends the process when a caller broke a contract. Always on: a slab handed out twice must not go on. In libofframp.so,
// whose process is not ours, it throws an Error of the kind Internal, which ends the call, or the thread's run.
inline void expect(bool holds, std::string_view contract,
                   std::source_location where = std::source_location::current()) {
    if (holds) [[likely]]
        return;
    fail_expectation(contract, where);
}

// The text of another thread's exception, for a status page or a log. `error` is not null.
std::string exception_text(const std::exception_ptr& error);

}  // namespace offramp
