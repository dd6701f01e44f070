#include "common/base/trace.hpp"

#include <nvtx3/nvToolsExt.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <exception>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.hpp"
#include "common/base/error.hpp"

namespace offramp {
namespace {

struct Look {
    const char* name;  // the NVTX name, from the article
    const char* recorded_name;
    std::uint32_t argb;
};

constexpr std::array<Look, 15> kLooks{{{"Batch", "batch", 0xff0000ff},
                                       {"get batch", "get_batch", 0xffff0000},
                                       {"compute", "compute", 0xff00ff00},
                                       {"copy to CPU", "copy_to_cpu", 0xffffff00},
                                       {"queue CUDA event", "queue_cuda_event", 0xff00ffff},
                                       {"queue output", "queue_output", 0xff00ffff},
                                       {"process output", "process_output", 0xff00ffff},
                                       {"capture", "capture", 0xffffffff},
                                       {"decode", "decode", 0xffff4040},
                                       {"stage batch", "stage_batch", 0xffffb0b0},
                                       {"h2d", "h2d", 0xffff8080},
                                       {"wait slab", "wait_slab", 0xff808080},
                                       {"publish", "publish", 0xffc080ff},
                                       {"map", "map", 0xffa0a0ff},
                                       {"unmap", "unmap", 0xffa0a0ff}}};

struct Registry {
    nvtxDomainHandle_t domain = nvtxDomainCreateA("offramp");
    std::array<nvtxStringHandle_t, kLooks.size()> names{};

    Registry() {
        for (std::size_t i = 0; i < kLooks.size(); ++i) names[i] = nvtxDomainRegisterStringA(domain, kLooks[i].name);
    }
};

const Registry& registry() {
    static const Registry instance;
    return instance;
}

void push(TraceName name, const std::uint64_t* batch) noexcept {
    const auto index = static_cast<std::size_t>(name);
    nvtxEventAttributes_t attributes{};
    attributes.version = NVTX_VERSION;
    attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    attributes.colorType = NVTX_COLOR_ARGB;
    attributes.color = kLooks[index].argb;
    std::array<char, 32> text{};
    if (name == TraceName::Batch && batch != nullptr) {
        std::snprintf(text.data(), text.size(), "Batch %llu", static_cast<unsigned long long>(*batch));
        attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
        attributes.message.ascii = text.data();
    } else {
        attributes.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
        attributes.message.registered = registry().names[index];
    }
    if (batch != nullptr) {
        attributes.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
        attributes.payload.ullValue = *batch;
    }
    nvtxDomainRangePushEx(registry().domain, &attributes);
}

// Growing the vector blocks threads, which would be visible in the recording.
constexpr std::size_t kRoomAtOnce = std::size_t{1} << 18;  // 15 MB; unused pages are not touched

using Lane = decltype(RecordedRange::lane);

struct Recording {
    std::mutex mutex;  // guards the members below. The atomics and `on` change under it, and are read without it
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

// Never destroyed: the host program's threads still record while it exits.
Recording& instance() {
    static Recording& made = *new Recording;
    return made;
}

// A child that never calls exec does not record: nothing in it would end the recording. Does not free memory: another
// thread may have held the allocator's locks.
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

// A quick check without the mutex: false if the range will not be kept.
bool may_be_kept(std::uint64_t begin_ns, std::uint64_t end_ns) noexcept {
    if (!recording()) return false;
    Recording& recording = instance();
    if (!recording.wants(begin_ns, end_ns)) return false;
    if (!recording.full.load(std::memory_order_relaxed)) return true;
    recording.not_kept.fetch_add(1, std::memory_order_relaxed);
    return false;
}

// `lane` null: the main thread's.
void keep(const Lane* lane, const char* name, std::uint64_t batch, std::uint64_t begin_ns, std::uint64_t end_ns,
          bool on_device) noexcept {
    Recording& recording = instance();
    const std::lock_guard lock(recording.mutex);
    if (!on || !recording.wants(begin_ns, end_ns)) return;  // the recording ended meanwhile, or another one has begun
    try {
        if (recording.ranges.size() < recording.most)
            recording.ranges.push_back(
                {lane != nullptr ? *lane : recording.main_lane, name, batch, begin_ns, end_ns, on_device});
        else
            ++recording.not_kept;
    } catch (const std::exception&) {
        ++recording.not_kept;  // out of memory: the run continues
    }
    recording.full.store(recording.ranges.size() >= recording.most, std::memory_order_relaxed);
}

}  // namespace

TraceRange::TraceRange(TraceName name) noexcept : name_(name), began_ns_(recording() ? now_ns() : 0) {
    push(name, nullptr);
}

TraceRange::TraceRange(TraceName name, std::uint64_t batch) noexcept
    : name_(name), batch_(batch), began_ns_(recording() ? now_ns() : 0) {
    push(name, &batch);
}

TraceRange::~TraceRange() {
    nvtxDomainRangePop(registry().domain);
    if (began_ns_ != 0)
        record_range(kLooks[static_cast<std::size_t>(name_)].recorded_name, batch_, began_ns_, now_ns());
}

void name_this_thread(const char* name) noexcept {
    registry();  // NVTX sets itself up at its first call, and two first calls race
    std::array<char, 16> kept{};
    std::snprintf(kept.data(), kept.size(), "%s", name);
    pthread_setname_np(pthread_self(), kept.data());
    nvtxNameOsThreadA(static_cast<std::uint32_t>(::syscall(SYS_gettid)), name);
    set_recording_lane(name);
}

bool keep_ranges(std::string_view main_lane, const RangesWanted& wanted) {
    static const int problem = ::pthread_atfork(lock_recording, unlock_recording, end_recording_in_the_child);
    if (problem != 0) throw SystemError("registering a fork handler", problem);
    Recording& recording = instance();
    const std::lock_guard lock(recording.mutex);
    if (on) return false;
    recording.ranges.clear();  // a forked child still has its parent's ranges
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
