#include "common/base/trace_recording.hpp"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <exception>
#include <mutex>
#include <string>
#include <utility>

namespace offramp {
namespace {

// A vector that grows while threads wait for it would show in what it records.
constexpr std::size_t kRoomAtOnce = std::size_t{1} << 18;  // 15 MB, of which what is not used is not touched

using Lane = decltype(RecordedRange::lane);

struct Recording {
    std::mutex mutex;  // of all that follows; `on` changes under it
    Lane main_lane{};
    std::size_t most = 0;
    RecordedRanges kept;
};

std::atomic<bool> on{false};
thread_local Lane this_lane{};
enum class ThisThread { Unknown, Main, Other };
thread_local ThisThread this_thread = ThisThread::Unknown;

Recording& instance() {
    static Recording recording;
    return recording;
}

// Threads of a program of somebody else's are called what it likes: nothing of it breaks a line of JSON.
Lane lane_of(const char* text) {
    Lane lane{};
    std::snprintf(lane.data(), lane.size(), "%s", text);
    std::ranges::replace_if(
        lane, [](char one) { return one != 0 && (one < ' ' || one > '~' || one == '"' || one == '\\'); }, '?');
    return lane;
}

bool is_main_thread() {
    if (this_thread == ThisThread::Unknown)
        this_thread = ::getpid() == static_cast<pid_t>(::syscall(SYS_gettid)) ? ThisThread::Main : ThisThread::Other;
    return this_thread == ThisThread::Main;
}

const Lane& lane_of_this_thread() {
    if (this_lane[0] == 0) {
        Lane name{};
        ::pthread_getname_np(::pthread_self(), name.data(), name.size());
        this_lane = lane_of(name[0] != 0 ? name.data() : "thread");
    }
    return this_lane;
}

// Without a lane: the main thread's.
void keep(const Lane* lane, const char* name, std::uint64_t batch, std::uint64_t begin_ns, std::uint64_t end_ns,
          bool on_device) noexcept {
    Recording& recording = instance();
    const std::lock_guard lock(recording.mutex);
    if (!on) return;  // it ended meanwhile
    RecordedRanges& kept = recording.kept;
    try {
        if (kept.ranges.size() < recording.most)
            kept.ranges.push_back(
                {lane != nullptr ? *lane : recording.main_lane, name, batch, begin_ns, end_ns, on_device});
        else
            ++kept.not_kept;
    } catch (const std::exception&) {
        ++kept.not_kept;  // no memory: the run goes on
    }
}

}  // namespace

bool keep_ranges(std::string_view main_lane, std::size_t most) {
    Recording& recording = instance();
    const std::lock_guard lock(recording.mutex);
    if (on) return false;
    recording.kept.ranges.reserve(std::min(most, kRoomAtOnce));
    recording.main_lane = lane_of(std::string(main_lane).c_str());
    recording.most = most;
    on = true;
    return true;
}

bool recording() noexcept { return on.load(std::memory_order_relaxed); }

std::optional<RecordedRanges> take_ranges() {
    Recording& recording = instance();
    const std::lock_guard lock(recording.mutex);
    if (!on.exchange(false)) return std::nullopt;
    return std::exchange(recording.kept, {});
}

void set_recording_lane(const char* lane) noexcept { this_lane = lane_of(lane); }

void record_range(const char* name, std::uint64_t batch, std::uint64_t begin_ns, std::uint64_t end_ns) noexcept {
    if (!recording()) return;
    keep(is_main_thread() ? nullptr : &lane_of_this_thread(), name, batch, begin_ns, end_ns, false);
}

void record_device_range(const char* lane, std::uint64_t batch, std::uint64_t begin_ns, std::uint64_t end_ns) noexcept {
    if (!recording()) return;
    const Lane queue = lane_of(lane);
    keep(&queue, lane, batch, begin_ns, end_ns, true);
}

}  // namespace offramp
