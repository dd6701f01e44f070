#include "common/tracing/range_file.hpp"

#include <unistd.h>

#include <cstddef>
#include <exception>
#include <filesystem>
#include <optional>
#include <system_error>

#include "common/base/error.hpp"
#include "common/base/files.hpp"
#include "common/base/log.hpp"

namespace offramp {
namespace {

constexpr std::size_t kWrittenAtOnce = std::size_t{1} << 20;

std::string line_of(const RecordedRange& range) {
    std::string line = R"({"lane":")";
    line.append(range.lane.data()).append(R"(","name":")").append(range.name);
    line.append(R"(","batch":)").append(std::to_string(range.batch));
    line.append(R"(,"begin_ns":)").append(std::to_string(range.begin_ns));
    line.append(R"(,"end_ns":)").append(std::to_string(range.end_ns));
    return line.append(range.on_device ? R"(,"clock":"device"})" : "}").append("\n");
}

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

std::string RangeFile::path() const { return folder + "/" + process + "-" + std::to_string(::getpid()) + ".jsonl"; }

void write_range_file(const RangeFile& to, const RecordedRanges& kept) {
    const std::string path = to.path();
    WholeFile file(path, 0644, [&](int problem) { return SystemError(path + " cannot be written", problem); });
    std::string text = R"({"process":")" + to.process + R"(","pid":)" + std::to_string(::getpid());
    if (!to.strategy.empty()) text += R"(,"strategy":")" + to.strategy + "\"";
    text += R"(,"not_kept":)" + std::to_string(kept.not_kept) + "}\n";
    for (const RecordedRange& range : kept.ranges) {
        text += line_of(range);
        if (text.size() < kWrittenAtOnce) continue;
        file.write(text);
        text.clear();
    }
    file.write(text);
    file.put_in_place();
}

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
