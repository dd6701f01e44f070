#include "common/base/trace_recording.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <mutex>
#include <string>
#include <utility>

namespace offramp {
namespace {

constexpr std::size_t kMostRanges = std::size_t{4} << 20;

using Lane = decltype(RecordedRange::lane);

struct Recording {
    Lane main_lane{};
    std::mutex mutex;
    RecordedRanges kept;
};

std::atomic<bool> on{false};
thread_local Lane this_lane{};

Recording& instance() {
    static Recording recording;
    return recording;
}

Lane lane_of(const char* text) {
    Lane lane{};
    std::snprintf(lane.data(), lane.size(), "%s", text);
    return lane;
}

void keep(const RecordedRange& range) noexcept {
    Recording& recording = instance();
    try {
        const std::lock_guard lock(recording.mutex);
        if (recording.kept.ranges.size() < kMostRanges)
            recording.kept.ranges.push_back(range);
        else
            ++recording.kept.not_kept;
    } catch (const std::exception&) {
        ++recording.kept.not_kept;  // no memory: the run goes on
    }
}

}  // namespace

void keep_ranges(std::string_view main_lane) {
    instance().main_lane = lane_of(std::string(main_lane).c_str());
    on = true;
}

bool recording() noexcept { return on.load(std::memory_order_relaxed); }

std::optional<RecordedRanges> take_ranges() {
    if (!on.exchange(false)) return std::nullopt;
    Recording& recording = instance();
    const std::lock_guard lock(recording.mutex);
    return std::exchange(recording.kept, {});
}

void set_recording_lane(const char* lane) noexcept { this_lane = lane_of(lane); }

void record_range(const char* name, std::uint64_t batch, std::uint64_t begin_ns, std::uint64_t end_ns) noexcept {
    if (!recording()) return;
    const bool main_thread = ::getpid() == static_cast<pid_t>(::syscall(SYS_gettid));
    keep({main_thread ? instance().main_lane : this_lane, name, batch, begin_ns, end_ns, false});
}

void record_device_range(const char* lane, std::uint64_t batch, std::uint64_t begin_ns, std::uint64_t end_ns) noexcept {
    if (!recording()) return;
    keep({lane_of(lane), lane, batch, begin_ns, end_ns, true});
}

}  // namespace offramp
