#include "common/base/trace_recording.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <vector>

#include "common/base/log.hpp"

namespace offramp {
namespace {

constexpr std::size_t kMostRanges = std::size_t{4} << 20;

using Lane = std::array<char, 16>;

struct Range {
    Lane lane;
    const char* name;
    std::uint64_t batch, begin_ns, end_ns;
    bool on_device;
};

struct Recording {
    std::string path;
    std::string first_line;
    std::string main_lane;
    std::mutex mutex;
    std::vector<Range> ranges;
    std::uint64_t not_kept = 0;
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

void keep(const Range& range) noexcept {
    Recording& recording = instance();
    try {
        const std::lock_guard lock(recording.mutex);
        if (recording.ranges.size() < kMostRanges)
            recording.ranges.push_back(range);
        else
            ++recording.not_kept;
    } catch (const std::exception&) {
        ++recording.not_kept;  // no memory: the run goes on
    }
}

}  // namespace

void start_recording(const std::string& folder, std::string_view process, std::string_view rung) {
    Recording& recording = instance();
    const std::string pid = std::to_string(::getpid());
    recording.path = folder + "/" + std::string(process) + "-" + pid + ".jsonl";
    recording.first_line =
        "{\"process\":\"" + std::string(process) + "\",\"pid\":" + pid + ",\"rung\":\"" + std::string(rung) + "\"";
    recording.main_lane = process == "producer" ? "main" : process;
    on = true;
}

bool recording() noexcept { return on.load(std::memory_order_relaxed); }

void set_recording_lane(const char* lane) noexcept { this_lane = lane_of(lane); }

void record_range(const char* name, std::uint64_t batch, std::uint64_t begin_ns, std::uint64_t end_ns) noexcept {
    if (!recording()) return;
    const bool main_thread = ::getpid() == static_cast<pid_t>(::syscall(SYS_gettid));
    keep({main_thread ? lane_of(instance().main_lane.c_str()) : this_lane, name, batch, begin_ns, end_ns, false});
}

void record_device_range(const char* lane, std::uint64_t batch, std::uint64_t begin_ns, std::uint64_t end_ns) noexcept {
    if (!recording()) return;
    keep({lane_of(lane), lane, batch, begin_ns, end_ns, true});
}

void save_recording() noexcept {
    if (!on.exchange(false)) return;
    Recording& recording = instance();
    try {
        const std::lock_guard lock(recording.mutex);
        std::error_code ignored;
        std::filesystem::create_directories(std::filesystem::path(recording.path).parent_path(), ignored);
        std::ofstream file(recording.path, std::ios::trunc);
        file << recording.first_line << ",\"not_kept\":" << recording.not_kept << "}\n";
        for (const Range& range : recording.ranges)
            file << R"({"lane":")" << range.lane.data() << R"(","name":")" << range.name << R"(","batch":)"
                 << range.batch << R"(,"begin_ns":)" << range.begin_ns << R"(,"end_ns":)" << range.end_ns
                 << (range.on_device ? R"(,"clock":"device"})" : "}") << '\n';
        if (!file.flush()) spdlog::warn("{} cannot be written: no trace of this process", recording.path);
        if (recording.not_kept > 0)
            spdlog::warn("{} time ranges were not kept in {}", recording.not_kept, recording.path);
    } catch (const std::exception& problem) {
        spdlog::warn("the trace is lost: {}", problem.what());
    }
}

}  // namespace offramp
