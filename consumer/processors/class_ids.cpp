#include "consumer/processors/class_ids.hpp"

#include <algorithm>

#include "consumer/processors/row_chunks.hpp"

namespace offramp {

std::span<const std::uint8_t> ClassIds::of(const SegmentationOutput& output, std::size_t row, const Progress& progress) {
    if (!output.has_scores()) return plane_of(*output.tensor, row, ids_);
    const ClassScores scores = output.scores(row);
    return output.expansion > 1 ? enlarge(scores, output.expansion, progress) : reduce(scores, progress);
}

// Line by line: the enlarged scores never leave the cache.
std::span<const std::uint8_t> ClassIds::enlarge(const ClassScores& scores, std::uint32_t expansion, const Progress& progress) {
    enlarged_.begin(scores, expansion);
    const std::int64_t width = enlarged_.width();
    ids_.resize(static_cast<std::size_t>(enlarged_.height() * width));
    const auto line_bytes = scores.classes * width * static_cast<std::int64_t>(sizeof(float));
    std::int64_t done_bytes = 0;
    for (std::int64_t y = 0; y < enlarged_.height(); ++y) {
        const auto line = std::as_bytes(enlarged_.line(y));
        argmax_.run({.data = line.data(),
                     .dtype = kFloat32,
                     .classes = scores.classes,
                     .height = 1,
                     .width = width,
                     .class_stride = width,
                     .row_stride = width,
                     .column_stride = 1},
                    0, 1, std::span(ids_).subspan(static_cast<std::size_t>(y * width), static_cast<std::size_t>(width)));
        done_bytes += line_bytes;
        if (done_bytes < static_cast<std::int64_t>(kProgressBytes)) continue;
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
