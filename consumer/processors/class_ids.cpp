#include "consumer/processors/class_ids.hpp"

#include <algorithm>

#include "consumer/processors/row_chunks.hpp"

namespace offramp {
namespace {

void find_foreground(std::span<const float> line, const ForegroundScale& scale, std::span<std::uint8_t> ids) {
    for (std::size_t x = 0; x < line.size(); ++x) ids[x] = line[x] >= scale.least ? 1 : 0;
}

}  // namespace

std::span<const std::uint8_t> ClassIds::of(const SegmentationOutput& output, const SampleView& sample, const Progress& progress) {
    if (!output.has_scores()) return plane_of(*output.tensor, sample.row, ids_);
    return output.expansion > 1 || output.one_channel() ? by_lines(output, sample, progress) : reduce(output.scores(sample.row), progress);
}

// The enlarged scores never leave the cache.
std::span<const std::uint8_t> ClassIds::by_lines(const SegmentationOutput& output, const SampleView& sample, const Progress& progress) {
    const ClassScores scores = output.scores(sample.row);
    enlarged_.begin(scores, output.expansion);
    const std::int64_t width = enlarged_.width();
    ids_.resize(static_cast<std::size_t>(enlarged_.height() * width));
    std::size_t done_bytes = 0;
    for (std::int64_t y = 0; y < enlarged_.height(); ++y) {
        const std::span<const float> line = enlarged_.line(y);
        const auto ids = std::span(ids_).subspan(static_cast<std::size_t>(y * width), static_cast<std::size_t>(width));
        if (output.one_channel()) {
            require_allowed(line, scale_, output, sample);
            find_foreground(line, scale_, ids);
        } else {
            argmax_.run({.data = std::as_bytes(line).data(),
                         .dtype = kFloat32,
                         .classes = scores.classes,
                         .height = 1,
                         .width = width,
                         .class_stride = width,
                         .row_stride = width,
                         .column_stride = 1},
                        0, 1, ids);
        }
        done_bytes += line.size_bytes();
        if (done_bytes < kProgressBytes) continue;
        progress();
        done_bytes = 0;
    }
    progress();
    return ids_;
}

std::span<const std::uint8_t> ClassIds::reduce(const ClassScores& scores, const Progress& progress) {
    ids_.resize(static_cast<std::size_t>(scores.height * scores.width));
    const auto line_bytes = scores.classes * scores.width * static_cast<std::int64_t>(scores.dtype.bytes());
    const auto rows_at_once = std::max<std::int64_t>(1, static_cast<std::int64_t>(kProgressBytes) / line_bytes);
    for (std::int64_t y = 0; y < scores.height; y += rows_at_once) {
        const std::int64_t rows = std::min(rows_at_once, scores.height - y);
        argmax_.run(scores, y, rows,
                    std::span(ids_).subspan(static_cast<std::size_t>(y * scores.width), static_cast<std::size_t>(rows * scores.width)));
        progress();
    }
    return ids_;
}

}  // namespace offramp
