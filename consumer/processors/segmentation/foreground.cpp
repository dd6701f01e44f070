#include "consumer/processors/segmentation/foreground.hpp"

#include <algorithm>
#include <cmath>

#include "consumer/processors/raw/row_chunks.hpp"

namespace offramp {
namespace {

// `line`: scores, [classes, width].
std::uint8_t foreground_at(std::span<const float> line, std::size_t width, std::size_t x) {
    float largest = line[x];
    for (std::size_t at = x; at < line.size(); at += width) largest = std::max(largest, line[at]);
    float sum = 0;
    for (std::size_t at = x; at < line.size(); at += width) sum += std::exp(line[at] - largest);
    const float probability = 1.0F - std::exp(line[x] - largest) / sum;
    return probability > 0 ? static_cast<std::uint8_t>(probability * 255.0F + 0.5F) : std::uint8_t{0};  // NaN: 0
}

// `score`: of a network of one channel.
std::uint8_t alpha_of(float score, const ForegroundScale& scale) {
    const float probability = scale.logit ? 1.0F / (1.0F + std::exp(-score)) : std::min(score, 1.0F);
    return probability > 0 ? static_cast<std::uint8_t>(probability * 255.0F + 0.5F) : std::uint8_t{0};  // NaN: 0
}

}  // namespace

std::span<const std::uint8_t> Foreground::of(const SegmentationOutput& output, const SampleView& sample,
                                             const Progress& progress) {
    alpha_.resize(std::size_t{output.width()} * output.height());
    if (output.has_scores())
        weigh_scores(output, sample, progress);
    else
        weigh_ids(output, sample);
    progress();
    return alpha_;
}

void Foreground::weigh_scores(const SegmentationOutput& output, const SampleView& sample, const Progress& progress) {
    enlarged_.begin(output.scores(sample.row), output.upsample_factor);
    const auto width = static_cast<std::size_t>(enlarged_.width());
    ProgressByBytes done(progress);
    for (std::int64_t y = 0; y < enlarged_.height(); ++y) {
        const std::span<const float> line = enlarged_.line(y);
        std::uint8_t* const to = alpha_.data() + static_cast<std::size_t>(y) * width;
        if (output.one_channel()) {
            std::ranges::transform(line, to, [this](float score) { return alpha_of(score, scale_); });
        } else {
            for (std::size_t x = 0; x < width; ++x) to[x] = foreground_at(line, width, x);
        }
        done.add(line.size_bytes());
    }
}

void Foreground::weigh_ids(const SegmentationOutput& output, const SampleView& sample) {
    const auto ids = plane_of(*output.tensor, sample, ids_);
    if (output.confidence == nullptr) {
        std::ranges::transform(ids, alpha_.begin(),
                               [](std::uint8_t id) { return id != 0 ? std::uint8_t{255} : std::uint8_t{0}; });
        return;
    }
    const auto confidence = plane_of(*output.confidence, sample, confidence_);
    std::ranges::transform(ids, confidence, alpha_.begin(), [](std::uint8_t id, std::uint8_t sure) {
        return id != 0 ? sure : static_cast<std::uint8_t>(255 - sure);
    });
}

}  // namespace offramp
