#include "consumer/processors/segmentation/enlarged_sample.hpp"

#include <algorithm>

#include "common/base/error.hpp"
#include "common/wire/output_forms.hpp"
#include "consumer/processors/raw/sample_array.hpp"

namespace offramp {

const EnlargeKernels& best_enlarge_kernels() {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return kAvx2Enlarge;
#endif
    return kBaselineEnlarge;
}

EnlargedSample::EnlargedSample() : kernels_(&best_enlarge_kernels()) {}

void EnlargedSample::begin(const ClassScores& sample, std::uint32_t upsample_factor) {
    expect(sample.dtype == kFloat32 || sample.dtype == kFloat16 || sample.dtype == kBFloat16,
           "scores are float32, float16 or bfloat16");
    expect(sample.classes >= 1 && sample.height >= 1 && sample.width >= 1 && upsample_factor >= 1 &&
               sample.height <= kLongestEnlargedSide / upsample_factor &&
               sample.width <= kLongestEnlargedSide / upsample_factor,
           "an enlarged side has 1 to 2^20 pixels");
    sample_ = sample;
    upsample_factor_ = upsample_factor;
    scale_ = 1.0F / static_cast<float>(upsample_factor);
    columns_.resize(static_cast<std::size_t>(width()));
    for (std::size_t x = 0; x < columns_.size(); ++x)
        columns_[x] = bilinear_taps(static_cast<std::int32_t>(x), static_cast<std::int32_t>(sample.width), scale_);
    const std::size_t line_of_all = columns_.size() * static_cast<std::size_t>(sample.classes);
    for (auto& line : across_) line.resize(line_of_all);
    result_.resize(line_of_all);
    source_.resize(static_cast<std::size_t>(sample.width));
    across_of_ = {-1, -1};
}

std::span<const float> EnlargedSample::line(std::int64_t y) {
    expect(y >= 0 && y < height(), "a line of the enlarged sample");
    if (upsample_factor_ == 1) return {enlarged_across(static_cast<std::int32_t>(y)), result_.size()};
    const Taps row = bilinear_taps(static_cast<std::int32_t>(y), static_cast<std::int32_t>(sample_.height), scale_);
    const float* const upper = enlarged_across(row.first);
    const float* const lower = enlarged_across(row.second);
    kernels_->down(upper, lower, row, result_.size(), result_.data());
    return result_;
}

void EnlargedSample::all(std::span<float> to) {
    const auto side = static_cast<std::size_t>(width());
    const auto plane = side * static_cast<std::size_t>(height());
    expect(to.size() == plane * static_cast<std::size_t>(sample_.classes), "room for the enlarged sample");
    for (std::int64_t y = 0; y < height(); ++y) {
        const auto scores = line(y);
        for (std::size_t c = 0; c * side < scores.size(); ++c)
            std::ranges::copy(scores.subspan(c * side, side),
                              to.subspan(c * plane + static_cast<std::size_t>(y) * side).begin());
    }
}

// Keeps two neighbours, because most of the next lines lie between the same two.
const float* EnlargedSample::enlarged_across(std::int32_t source_line) {
    const auto place = static_cast<std::size_t>(source_line % 2);
    if (across_of_[place] == source_line) return across_[place].data();
    float* to = across_[place].data();
    for (std::int64_t c = 0; c < sample_.classes; ++c, to += width()) {
        read(c, source_line);
        if (upsample_factor_ == 1)
            std::ranges::copy(source_, to);
        else
            kernels_->across(source_.data(), columns_.data(), columns_.size(), to);
    }
    across_of_[place] = source_line;
    return across_[place].data();
}

void EnlargedSample::read(std::int64_t c, std::int64_t source_line) {
    const std::int64_t first = c * sample_.class_stride + source_line * sample_.row_stride;
    for (std::size_t x = 0; x < source_.size(); ++x) {
        const auto at = static_cast<std::size_t>(first + static_cast<std::int64_t>(x) * sample_.column_stride);
        source_[x] = number_at(sample_.data, sample_.dtype, at);
    }
}

namespace {

// The scale that PyTorch uses when a size is given.
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

// Keeps two neighbours, because most of the next lines lie between the same two.
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
