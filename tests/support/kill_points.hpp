#pragma once

#include <cstdlib>
#include <string>

namespace offramp::test {

// The distance between two steps at which a process is killed: 1 for every step. A sanitizer multiplies the time of a
// step, so its builds use 9. OFFRAMP_TEST_ONE_IN overrides both.
inline int kill_one_in() {
    if (const char* given = std::getenv("OFFRAMP_TEST_ONE_IN")) return std::stoi(given);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return 9;
#else
    return 1;
#endif
}

}  // namespace offramp::test
