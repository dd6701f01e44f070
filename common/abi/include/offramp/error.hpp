#pragma once

#if __cplusplus < 202002L
#error "Offramp's C++ headers need C++20: compile with -std=c++20 or later, or use the C header offramp.h."
#endif

#include <offramp.h>

#include <cstring>
#include <stdexcept>
#include <string>

namespace offramp {

// The reason and a remedy, in a sentence; code() is one of offramp_code.
class Error : public std::runtime_error {
  public:
    explicit Error(const offramp_error& error) : std::runtime_error(error.text), code_(error.code) {}
    int code() const noexcept { return code_; }

  private:
    int code_;
};

namespace detail {

// Calls `call(&error)` and throws its error. Returns the codes that are not failures.
template <typename Call>
int checked(Call&& call, int besides = OFFRAMP_OK) {
    offramp_error error{};
    const int code = call(&error);
    if (code != OFFRAMP_OK && code != besides) throw Error(error);
    return code;
}

}  // namespace detail
}  // namespace offramp
