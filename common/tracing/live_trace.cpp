#include "common/tracing/live_trace.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "common/base/log.hpp"
#include "common/base/trace.hpp"
#include "common/json/json_text.hpp"
#include "common/shm/run_files.hpp"
#include "common/tracing/range_file.hpp"

namespace offramp {
namespace {

constexpr std::size_t kLongestId = 64;
constexpr std::uint64_t kLongestNs = 300'000'000'000;  // a request with a later end is from before the last boot

// The id becomes part of a path.
bool is_id(std::string_view text) {
    return !text.empty() && text.size() <= kLongestId && std::ranges::all_of(text, [](char one) {
        return (one >= 'a' && one <= 'z') || (one >= '0' && one <= '9') || one == '-';
    });
}

}  // namespace

LiveTrace::LiveTrace(std::string run_dir, std::string process, std::string main_lane, std::function<void()> on_begin)
    : run_dir_(std::move(run_dir)),
      process_(std::move(process)),
      main_lane_(std::move(main_lane)),
      request_path_(run_dir_ + "/" + run_files::kTraceRequest),
      on_begin_(std::move(on_begin)) {}

void LiveTrace::look(TimePoint now) {
    if (now < next_look_) return;
    next_look_ = now + kLookEvery;
    try {
        if (under_way_ && to_ns(now) >= under_way_->until_ns) stop();
        if (under_way_ || is_writing()) return;
        const auto request = asked();
        const std::uint64_t at_ns = to_ns(now);
        if (request && at_ns < request->until_ns && request->until_ns - at_ns <= kLongestNs) begin(*request);
    } catch (const std::exception& problem) {
        spdlog::warn("this process records no trace: {}", problem.what());
    }
}

// Returns nothing if there is no new request.
std::optional<LiveTrace::Request> LiveTrace::asked() {
    struct stat file {};
    if (::stat(request_path_.c_str(), &file) != 0) return std::nullopt;
    const std::int64_t changed_ns = file.st_mtim.tv_sec * 1'000'000'000 + file.st_mtim.tv_nsec;
    if (file.st_ino == seen_inode_ && changed_ns == seen_at_ns_) return std::nullopt;
    seen_inode_ = file.st_ino;
    seen_at_ns_ = changed_ns;
    std::ifstream text(request_path_);
    const auto parsed = parse_json_or_discard(std::string(std::istreambuf_iterator<char>(text), {}));
    if (!parsed.is_object() || !parsed.contains("id") || !parsed["id"].is_string()) return std::nullopt;
    const auto time = [&](const char* key) -> std::uint64_t {
        return parsed.contains(key) && parsed[key].is_number_unsigned() ? parsed[key].get<std::uint64_t>() : 0;
    };
    Request request{parsed["id"].get<std::string>(), time("from_ns"), time("until_ns")};
    if (!is_id(request.id)) return std::nullopt;
    return request;
}

void LiveTrace::begin(const Request& request) {
    // The requester is gone, or belongs to another user.
    if (::access((run_dir_ + "/" + run_files::kTraceFolder + request.id).c_str(), W_OK | X_OK) != 0) return;
    if (!keep_ranges(main_lane_, {.most = kMostRangesKept, .from_ns = request.from_ns, .until_ns = request.until_ns}))
        return;
    under_way_ = request;
    if (on_begin_) on_begin_();
}

// Writes in another thread: a recording can be large, disks can stall, and look()'s thread must serve slabs.
void LiveTrace::stop() {
    const Request request = *std::exchange(under_way_, {});
    auto kept = take_ranges();
    if (!kept) return;
    RangeFile to{.folder = run_dir_ + "/" + run_files::kTraceFolder + request.id, .process = process_};
    writing_ = std::async(std::launch::async, [to = std::move(to), kept = std::move(*kept)]() noexcept {
        name_this_thread("trace-writer");
        try {
            write_range_file(to, kept);
        } catch (const std::exception& problem) {
            spdlog::warn("this process records no trace: {}", problem.what());
        }
    });
}

bool LiveTrace::is_writing() const {
    return writing_.valid() && writing_.wait_for(std::chrono::seconds(0)) != std::future_status::ready;
}

void LiveTrace::end() noexcept {
    try {
        if (under_way_) stop();
        if (writing_.valid()) writing_.wait();
    } catch (const std::exception& problem) {
        spdlog::warn("this process records no trace: {}", problem.what());
    }
}

}  // namespace offramp
