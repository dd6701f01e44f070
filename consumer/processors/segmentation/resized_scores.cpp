#include "consumer/processors/segmentation/resized_scores.hpp"

#include "common/base/error.hpp"

namespace offramp {
namespace {

// As PyTorch has it where a size is given.
float scale_of(std::int64_t from, std::uint32_t to) { return static_cast<float>(from) / static_cast<float>(to); }

}  // namespace

void ResizedScores::begin(const ClassScores& sample, std::uint32_t upsample_factor, ImageSize size) {
    expect(size.pixels() > 0 && size.pixels() <= kMaxImagePixels, "a picture has pixels, and not too many");
    sample_.begin(sample, upsample_factor);
    size_ = size;
    classes_ = static_cast<std::size_t>(sample.classes);
}

void ResizedScores::take_columns(std::uint32_t first, std::uint32_t count) {
    columns_.resize(count);
    const auto from = static_cast<std::int32_t>(sample_.width());
    for (std::uint32_t x = 0; x < count; ++x)
        columns_[x] = bilinear_taps(static_cast<std::int32_t>(first + x), from, scale_of(from, size_.width));
    for (auto& line : across_) line.resize(classes_ * count);
    result_.resize(classes_ * count);
    across_of_ = {-1, -1};
}

std::span<const float> ResizedScores::line(std::uint32_t y) {
    const auto from = static_cast<std::int32_t>(sample_.height());
    const Taps row = bilinear_taps(static_cast<std::int32_t>(y), from, scale_of(from, size_.height));
    const float* const upper = brought_across(row.first);
    const float* const lower = brought_across(row.second);
    kernels_->down(upper, lower, row, result_.size(), result_.data());
    return result_;
}

// Two neighbours are kept: the next lines mostly lie between the same.
const float* ResizedScores::brought_across(std::int32_t source_line) {
    const auto place = static_cast<std::size_t>(source_line % 2);
    float* const to = across_[place].data();
    if (across_of_[place] == source_line) return to;
    const std::span<const float> from = sample_.line(source_line);
    for (std::size_t c = 0; c < classes_; ++c)
        kernels_->across(from.data() + c * static_cast<std::size_t>(sample_.width()), columns_.data(), columns_.size(),
                         to + c * columns_.size());
    across_of_[place] = source_line;
    return to;
}

}  // namespace offramp
