#pragma once

#include <cstdlib>
#include <ctime>
#include <string>

// A daily share of many points at which a process is killed: under a sanitizer, where every step takes several times as
// long, a ninth; in the plain build all. The day is that of turn.py. OFFRAMP_TEST_TURN repeats a day, and
// OFFRAMP_TEST_ONE_IN=1 selects all points.
namespace offramp::test {

struct Turn {
    int turn = 0;
    int one_in = 1;

    // The first point, counted from 1; each further point is `one_in` later.
    int first() const { return 1 + turn % one_in; }

    std::string description() const {
        return "share " + std::to_string(turn % one_in + 1) + " of " + std::to_string(one_in) +
               "; again with OFFRAMP_TEST_TURN=" + std::to_string(turn);
    }
};

inline Turn turn_of_kill_points() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    constexpr int kOneIn = 9;
#else
    constexpr int kOneIn = 1;
#endif
    const auto number_in = [](const char* name, int otherwise) {
        const char* text = std::getenv(name);
        return text != nullptr ? std::stoi(text) : otherwise;
    };
    const std::time_t now = std::time(nullptr);
    return {.turn = number_in("OFFRAMP_TEST_TURN", std::gmtime(&now)->tm_yday + 1),
            .one_in = number_in("OFFRAMP_TEST_ONE_IN", kOneIn)};
}

}  // namespace offramp::test
