#include "common/app/program/trace_file.hpp"

#include <exception>
#include <filesystem>
#include <optional>
#include <system_error>

#include "common/base/log.hpp"
#include "common/base/trace_recording.hpp"
#include "common/tracing/range_file.hpp"

namespace offramp {
namespace {

RangeFile& trace_file() {
    static RangeFile file;
    return file;
}

void write(const RangeFile& to, const RecordedRanges& kept) {
    std::error_code ignored;
    std::filesystem::create_directories(to.folder, ignored);
    write_range_file(to, kept);
    if (kept.not_kept > 0) spdlog::warn("{} time ranges were not recorded in {}", kept.not_kept, to.path());
}

}  // namespace

void start_recording(const std::string& folder, std::string_view process, std::string_view strategy) {
    trace_file() = {.folder = folder, .process = std::string(process), .strategy = std::string(strategy)};
    keep_ranges(process == "producer" ? "main" : process);
}

void save_recording() noexcept {
    if (trace_file().folder.empty()) return;
    try {
        if (const std::optional<RecordedRanges> kept = take_ranges()) write(trace_file(), *kept);
    } catch (const std::exception& problem) {
        spdlog::warn("the trace is lost: {}", problem.what());
    }
}

}  // namespace offramp
