#include "common/program/trace_file.hpp"

#include <unistd.h>

#include <exception>
#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>

#include "common/base/log.hpp"
#include "common/base/trace_recording.hpp"

namespace offramp {
namespace {

struct TraceFile {
    std::string path;
    std::string first_line;
};

TraceFile& trace_file() {
    static TraceFile file;
    return file;
}

void write(const TraceFile& to, const RecordedRanges& kept) {
    std::error_code ignored;
    std::filesystem::create_directories(std::filesystem::path(to.path).parent_path(), ignored);
    std::ofstream file(to.path, std::ios::trunc);
    file << to.first_line << ",\"not_kept\":" << kept.not_kept << "}\n";
    for (const RecordedRange& range : kept.ranges)
        file << R"({"lane":")" << range.lane.data() << R"(","name":")" << range.name << R"(","batch":)" << range.batch
             << R"(,"begin_ns":)" << range.begin_ns << R"(,"end_ns":)" << range.end_ns
             << (range.on_device ? R"(,"clock":"device"})" : "}") << '\n';
    if (!file.flush()) spdlog::warn("{} cannot be written: no trace of this process", to.path);
    if (kept.not_kept > 0) spdlog::warn("{} time ranges were not kept in {}", kept.not_kept, to.path);
}

}  // namespace

void start_recording(const std::string& folder, std::string_view process, std::string_view strategy) {
    const std::string pid = std::to_string(::getpid());
    trace_file() = {
        folder + "/" + std::string(process) + "-" + pid + ".jsonl",
        "{\"process\":\"" + std::string(process) + "\",\"pid\":" + pid + ",\"rung\":\"" + std::string(strategy) + "\""};
    keep_ranges(process == "producer" ? "main" : process);
}

void save_recording() noexcept {
    try {
        if (const std::optional<RecordedRanges> kept = take_ranges()) write(trace_file(), *kept);
    } catch (const std::exception& problem) {
        spdlog::warn("the trace is lost: {}", problem.what());
    }
}

}  // namespace offramp
