#include "producer/runner/transforms/score_review.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <utility>

#include "common/base/error.hpp"
#include "common/numerics/float16_bits.hpp"
#include "common/wire/output_forms.hpp"
#include "common/wire/tensor_spec.hpp"

namespace offramp {
namespace {

constexpr std::size_t kAtOnce = 1024;

// The first number that `allowed` rejects, or 0, which is always allowed. In uniform pieces, for vector instructions.
template <class Number, class Value, class Allowed>
float first_outlier(std::span<const std::byte> bytes, Value value, Allowed allowed) {
    Number piece[kAtOnce];
    for (std::size_t at = 0; at < bytes.size(); at += sizeof piece) {
        const std::span<const std::byte> now = bytes.subspan(at, std::min(sizeof piece, bytes.size() - at));
        std::memcpy(piece, now.data(), now.size());
        const std::size_t numbers = now.size() / sizeof(Number);
        unsigned wrong = 0;
        for (std::size_t i = 0; i < numbers; ++i) wrong |= allowed(value(piece[i])) ? 0U : 1U;
        if (wrong == 0) continue;
        for (std::size_t i = 0; i < numbers; ++i)
            if (!allowed(value(piece[i]))) return value(piece[i]);
    }
    return 0;
}

template <class Allowed>
float first_outlier(std::span<const std::byte> bytes, DType dtype, Allowed allowed) {
    if (dtype == kFloat16) return first_outlier<std::uint16_t>(bytes, float_of_float16, allowed);
    if (dtype == kBFloat16) return first_outlier<std::uint16_t>(bytes, float_of_bfloat16, allowed);
    return first_outlier<float>(
        bytes, [](float number) { return number; }, allowed);
}

float first_outlier(std::span<const std::byte> bytes, DType dtype, const ForegroundScale& scale) {
    if (scale.logit) return first_outlier(bytes, dtype, [](float score) { return score == score; });
    return first_outlier(bytes, dtype, [](float score) {
        return (score >= -ForegroundScale::kSlack) & (score <= 1.0F + ForegroundScale::kSlack);
    });
}

}  // namespace

ScoreReview::ScoreReview(const SlabLayout& layout, Settings settings)
    : settings_(std::move(settings)), looked_at_(settings_.passed_before) {
    if (!settings_.in_slabs) return;
    for (std::size_t i = 0; i < layout.tensors.size(); ++i) {
        const TensorSpec& spec = layout.tensors[i];
        if (is_class_scores(spec) && spec.shape[1] == 1)
            outputs_.push_back({.tensor = i, .dtype = spec.dtype, .described = describe_output(spec)});
    }
}

bool ScoreReview::passes(const OutputBatch& batch, std::uint32_t row, SlabWriter& slab, std::uint32_t slab_row) {
    ++looked_at_;
    const RowInfo& info = batch.rows[row];
    for (const RowOutliers& outliers : batch.outliers)
        if (rejects(info, outliers.output, outliers.of(row))) return false;
    for (const Output& output : outputs_)
        if (rejects(info, output.described,
                    first_outlier(slab.tensor_rows(output.tensor, slab_row, 1), output.dtype, settings_.scale)))
            return false;
    return true;
}

bool ScoreReview::rejects(const RowInfo& row, const std::string& output, float outlier) {
    if (settings_.scale.allows(outlier)) return false;
    const std::string reason = output + " holds " + ForegroundScale::objection_to(outlier);
    if (!std::isnan(outlier) && ++no_probability_ == 1)
        first_ = "the item '" + (row.key.empty() ? std::to_string(row.item) : std::string(row.key)) + "': " + reason;
    too_many_ = settings_.skip(row.item, reason) || too_many_;
    return true;
}

void ScoreReview::end_slab() {
    const bool no_probabilities = no_probability_ == looked_at_ && no_probability_ >= kAllWrong;
    if (no_probabilities || (too_many_ && 2 * no_probability_ > looked_at_))
        throw ConfigError(first_ + "; this affects " + std::to_string(no_probability_) + " of " +
                              std::to_string(looked_at_) + " items",
                          "If the network gives logits, give --scores logit (or write scores = \"logit\" into the "
                          "metadata beside the "
                          "model). If its one channel is not a foreground, choose another --processor, such as npy");
    if (std::exchange(too_many_, false)) settings_.too_many();
}

}  // namespace offramp
