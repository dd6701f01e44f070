#include <cmath>
#include <limits>
#include <vector>

#include "common/numerics/enlargement.hpp"
#include "producer/runner/kernels/class_confidence.hpp"
#include "producer/runner/kernels/kernel_plans.hpp"

namespace offramp {
namespace {

// The scores of one class on one line of the enlarged picture.
void enlarge_line(float* to, const float* plane, const Taps& row, const std::vector<Taps>& columns,
                  const ClassMapPlan& plan) {
    const float* const upper = plane + std::int64_t{row.first} * plan.width;
    const float* const lower = plane + std::int64_t{row.second} * plan.width;
    for (std::size_t x = 0; x < columns.size(); ++x) {
        const Taps& column = columns[x];
        if (plan.upsample_factor == 1)
            to[x] = upper[x];
        else
            to[x] = blend(blend(upper[column.first], upper[column.second], column),
                          blend(lower[column.first], lower[column.second], column), row);
    }
}

// The first of the largest scores, a NaN counting as largest, as at::argmax finds it.
int largest_class(const float* scores, std::size_t step, int classes) {
    int best = 0;
    for (int c = 1; c < classes; ++c) {
        const float score = scores[static_cast<std::size_t>(c) * step];
        const float most = scores[static_cast<std::size_t>(best) * step];
        if (!(score <= most) && most == most) best = c;
    }
    return best;
}

std::uint8_t confidence_in(const float* scores, std::size_t step, int classes, int best) {
    const float most = scores[static_cast<std::size_t>(best) * step];
    if (!std::isfinite(most)) return 0;
    float sum = 0;
    for (int c = 0; c < classes; ++c) sum += exp_of_nonpositive(scores[static_cast<std::size_t>(c) * step] - most);
    return confidence_of(sum);
}

}  // namespace

void map_classes_on_cpu(std::uint8_t* ids, std::uint8_t* confidence, const float* scores, const ClassMapPlan& plan) {
    const std::int32_t height = plan.height * plan.upsample_factor;
    const std::int32_t width = plan.width * plan.upsample_factor;
    const auto step = static_cast<std::size_t>(width);
    std::vector<Taps> columns(step);
    for (std::int32_t x = 0; x < width; ++x)
        columns[static_cast<std::size_t>(x)] = bilinear_taps(x, plan.width, plan.scale);
    std::vector<float> line(step * static_cast<std::size_t>(plan.classes));
    for (std::int64_t row = 0; row < plan.rows; ++row) {
        for (std::int32_t y = 0; y < height; ++y) {
            const Taps taps = bilinear_taps(y, plan.height, plan.scale);
            for (std::int32_t c = 0; c < plan.classes; ++c)
                enlarge_line(line.data() + static_cast<std::size_t>(c) * step,
                             scores + (row * plan.classes + c) * plan.plane(), taps, columns, plan);
            const std::int64_t first = (row * height + y) * width;
            for (std::int32_t x = 0; x < width; ++x) {
                const int best = largest_class(line.data() + x, step, plan.classes);
                ids[first + x] = static_cast<std::uint8_t>(best);
                if (confidence != nullptr)
                    confidence[first + x] = confidence_in(line.data() + x, step, plan.classes, best);
            }
        }
    }
}

void map_foreground_on_cpu(std::uint8_t* ids, std::uint8_t* confidence, float* outliers, const float* scores,
                           const ForegroundPlan& plan) {
    const ClassMapPlan& map = plan.map;
    const std::int32_t height = map.height * map.upsample_factor;
    const std::int32_t width = map.width * map.upsample_factor;
    std::vector<Taps> columns(static_cast<std::size_t>(width));
    for (std::int32_t x = 0; x < width; ++x)
        columns[static_cast<std::size_t>(x)] = bilinear_taps(x, map.width, map.scale);
    std::vector<float> line(columns.size());
    std::int64_t pixel = 0;
    for (std::int64_t row = 0; row < map.rows; ++row) {
        outliers[row] = 0;
        for (std::int32_t y = 0; y < height; ++y) {
            enlarge_line(line.data(), scores + row * map.plane(), bilinear_taps(y, map.height, map.scale), columns,
                         map);
            for (const float score : line) {
                if (!plan.scale.allows(score)) outliers[row] = score;
                const bool foreground = score >= plan.scale.least;
                ids[pixel] = foreground ? 1 : 0;
                if (confidence != nullptr) confidence[pixel] = foreground_confidence(score, foreground, plan.scale);
                ++pixel;
            }
        }
    }
}

}  // namespace offramp
