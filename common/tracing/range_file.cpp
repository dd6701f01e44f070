#include "common/tracing/range_file.hpp"

#include <unistd.h>

#include "common/base/error.hpp"
#include "common/base/whole_file.hpp"

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

}  // namespace offramp
