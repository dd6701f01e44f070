#pragma once

#include <cstdlib>
#include <string>

#include "tests/support/sanitizers.hpp"

namespace offramp::test {

// The distance between two steps at which a process is killed: 1 for every step. A sanitizer multiplies the time of a
// step, so its builds use 9. OFFRAMP_TEST_ONE_IN overrides both.
inline int kill_one_in() {
    if (const char* given = std::getenv("OFFRAMP_TEST_ONE_IN")) return std::stoi(given);
    return has_sanitizer() ? 9 : 1;
}

}  // namespace offramp::test
