#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>

#include <offramp.h>
#include "common/base/error_kind.hpp"

namespace offramp::abi {

// Runs a C ABI call: returns the code that `body` returns or throws. Refuses a call from within a `release`. Cuts a
// text between characters if it does not fit into an offramp_error. Never throws.
std::int32_t guarded(offramp_error* error, const std::function<std::int32_t()>& body) noexcept;
std::int32_t refused(offramp_error* error, std::int32_t code, std::string_view text) noexcept;
// The kind's number if offramp.h lists it, else OFFRAMP_INTERNAL.
std::int32_t code_of(ErrorKind kind) noexcept;

// Marks that the caller's `release` runs on this thread. It may hold what a library call waits for, so every call
// except offramp_consumer_stop() is refused until it returns.
class WithinRelease {
  public:
    WithinRelease() noexcept;
    ~WithinRelease();
    WithinRelease(const WithinRelease&) = delete;
    WithinRelease& operator=(const WithinRelease&) = delete;
};

// Copies the caller's struct into this build's version. Fields that an older caller lacks are 0. Errors: ConfigError if
// the struct is null, or its size is invalid.
void require_struct(const void* given, std::size_t size, std::size_t least, const char* name);
template <typename Struct>
Struct known_part(const Struct* given, std::size_t least, const char* name) {
    std::size_t size = 0;
    if (given != nullptr) std::memcpy(&size, given, sizeof size);
    require_struct(given, size, least, name);
    Struct known{};
    std::memcpy(&known, given, size < sizeof known ? size : sizeof known);
    return known;
}

// Errors: ConfigError if `seconds` is neither 0 nor a number of seconds.
std::chrono::nanoseconds seconds_or(double seconds, std::chrono::nanoseconds otherwise, const char* name);
inline constexpr double kMostSeconds = 1e9;

inline std::string text_or(const char* text, const char* otherwise) { return text == nullptr ? otherwise : text; }

// Sends the library's log to the file that OFFRAMP_LOG names, or nowhere: the terminal belongs to the program. Takes
// effect once per process.
void quiet_log();

}  // namespace offramp::abi
