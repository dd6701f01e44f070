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
#include <vector>

#include "common/base/error.hpp"

namespace offramp {
namespace {

// A vector that grows while threads wait for it would show in what it records.
constexpr std::size_t kRoomAtOnce = std::size_t{1} << 18;  // 15 MB, of which what is not used is not touched

using Lane = decltype(RecordedRange::lane);

struct Recording {
    std::mutex mutex;  // of what follows, up to the atomics, which are read without it and change under it, as `on`
    Lane main_lane{};
    std::size_t most = 0;
    std::vector<RecordedRange> ranges;
    std::atomic<std::uint64_t> from_ns{0}, until_ns{0};
    std::atomic<bool> full{false};
    std::atomic<std::uint64_t> not_kept{0};  // counted without the mutex

    bool wants(std::uint64_t begin_ns, std::uint64_t end_ns) const {
        return end_ns >= from_ns.load(std::memory_order_relaxed) && begin_ns < until_ns.load(std::memory_order_relaxed);
    }
};

std::atomic<bool> on{false};
thread_local Lane this_lane{};
enum class ThisThread { Unknown, Main, Other };
thread_local ThisThread this_thread = ThisThread::Unknown;

// Never destroyed: threads of the host program record while it exits.
Recording& instance() {
    static Recording& made = *new Recording;
    return made;
}

// A child that never calls exec records nothing: who began it is not there. No memory is freed: another thread may have
// held the allocator's locks.
void lock_recording() { instance().mutex.lock(); }
void unlock_recording() { instance().mutex.unlock(); }
void end_recording_in_the_child() {
    on = false;
    this_thread = ThisThread::Unknown;
    instance().mutex.unlock();
}

// The host program may give threads any name: escape it for JSON.
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

// Whether there is anything to keep it for, as far as that is seen without the mutex.
bool may_be_kept(std::uint64_t begin_ns, std::uint64_t end_ns) noexcept {
    if (!recording()) return false;
    Recording& recording = instance();
    if (!recording.wants(begin_ns, end_ns)) return false;
    if (!recording.full.load(std::memory_order_relaxed)) return true;
    recording.not_kept.fetch_add(1, std::memory_order_relaxed);
    return false;
}

// Without a lane: the main thread's.
void keep(const Lane* lane, const char* name, std::uint64_t batch, std::uint64_t begin_ns, std::uint64_t end_ns,
          bool on_device) noexcept {
    Recording& recording = instance();
    const std::lock_guard lock(recording.mutex);
    if (!on || !recording.wants(begin_ns, end_ns)) return;  // it ended meanwhile, or another one has begun
    try {
        if (recording.ranges.size() < recording.most)
            recording.ranges.push_back(
                {lane != nullptr ? *lane : recording.main_lane, name, batch, begin_ns, end_ns, on_device});
        else
            ++recording.not_kept;
    } catch (const std::exception&) {
        ++recording.not_kept;  // no memory: the run goes on
    }
    recording.full.store(recording.ranges.size() >= recording.most, std::memory_order_relaxed);
}

}  // namespace

bool keep_ranges(std::string_view main_lane, const RangesWanted& wanted) {
    static const int problem = ::pthread_atfork(lock_recording, unlock_recording, end_recording_in_the_child);
    if (problem != 0) throw SystemError("registering a fork handler", problem);
    Recording& recording = instance();
    const std::lock_guard lock(recording.mutex);
    if (on) return false;
    recording.ranges.clear();  // a forked child has its parent's
    recording.ranges.reserve(std::min(wanted.most, kRoomAtOnce));
    recording.main_lane = lane_of(std::string(main_lane).c_str());
    recording.most = wanted.most;
    recording.from_ns = wanted.from_ns;
    recording.until_ns = wanted.until_ns;
    recording.full = wanted.most == 0;
    recording.not_kept = 0;
    on = true;
    return true;
}

bool recording() noexcept { return on.load(std::memory_order_relaxed); }

std::optional<RecordedRanges> take_ranges() {
    Recording& recording = instance();
    const std::lock_guard lock(recording.mutex);
    if (!on.exchange(false)) return std::nullopt;
    return RecordedRanges{std::exchange(recording.ranges, {}), recording.not_kept};
}

void set_recording_lane(const char* lane) noexcept { this_lane = lane_of(lane); }

void record_range(const char* name, std::uint64_t batch, std::uint64_t begin_ns, std::uint64_t end_ns) noexcept {
    if (!may_be_kept(begin_ns, end_ns)) return;
    keep(is_main_thread() ? nullptr : &lane_of_this_thread(), name, batch, begin_ns, end_ns, false);
}

void record_device_range(const char* lane, std::uint64_t batch, std::uint64_t begin_ns, std::uint64_t end_ns) noexcept {
    if (!may_be_kept(begin_ns, end_ns)) return;
    const Lane queue = lane_of(lane);
    keep(&queue, lane, batch, begin_ns, end_ns, true);
}

}  // namespace offramp
