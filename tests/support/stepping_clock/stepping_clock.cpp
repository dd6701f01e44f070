// Tests preload this into the real programs: each reading of the time of day differs from the real one by an hour, or
// by none, in turn. Elapsed time (CLOCK_MONOTONIC) stays as it is.
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <ctime>

namespace {

constexpr long kStepSeconds = 3600;

// -1, 0, 1, 0, ...
long next_step() {
    static std::atomic<unsigned> readings{0};
    const unsigned phase = readings++ % 4;
    return phase % 2 == 1 ? 0 : static_cast<long>(phase) - 1;
}

int read_clock(clockid_t clock, timespec* time) { return static_cast<int>(::syscall(SYS_clock_gettime, clock, time)); }

int read_time_of_day(timespec* time) {
    const int result = read_clock(CLOCK_REALTIME, time);
    if (result == 0) time->tv_sec += next_step() * kStepSeconds;
    return result;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

int clock_gettime(clockid_t clock, timespec* time) noexcept {
    return clock == CLOCK_REALTIME ? read_time_of_day(time) : read_clock(clock, time);
}

int gettimeofday(timeval* time, void* /*zone*/) noexcept {
    timespec now{};
    if (read_time_of_day(&now) != 0) return -1;
    *time = {.tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000};
    return 0;
}

time_t time(time_t* kept) noexcept {
    timespec now{};
    read_time_of_day(&now);
    if (kept != nullptr) *kept = now.tv_sec;
    return now.tv_sec;
}

}  // extern "C"
#pragma GCC visibility pop
