#include "producer/runner/kernels/kernels.hpp"

#include "common/base/error.hpp"
#include "producer/runner/kernels/kernel_plans.hpp"

namespace offramp::kernels {
namespace {

bool on_gpu(const Stream& stream) { return stream.native() != nullptr; }

}  // namespace

void normalize(Stream& stream, void* to, const TensorSpec& spec, const PixelInput& input) {
    const NormalizePlan plan = plan_normalize(spec, input);
    if (plan.elements() == 0) return;
    if (on_gpu(stream))
        normalize_on_gpu(stream.native(), to, input.pixels, plan);
    else
        stream.run_on_host([to, plan, pixels = input.pixels] { normalize_on_cpu(to, pixels, plan); });
}

void cast(Stream& stream, void* to, DType type, const void* from, std::size_t elements) {
    expect(type == kFloat16 || type == kBFloat16, "a cast makes float16 or bfloat16");
    if (elements == 0) return;
    if (on_gpu(stream))
        cast_on_gpu(stream.native(), to, type, from, elements);
    else
        stream.run_on_host([=] { cast_on_cpu(to, type, from, elements); });
}

void map_classes(Stream& stream, std::uint8_t* ids, std::uint8_t* confidence, const ClassScores& input) {
    const ClassMapPlan plan = plan_class_map(input);
    if (plan.pixels() == 0) return;
    if (on_gpu(stream))
        map_classes_on_gpu(stream.native(), ids, confidence, input.scores, plan);
    else
        stream.run_on_host(
            [ids, confidence, plan, scores = input.scores] { map_classes_on_cpu(ids, confidence, scores, plan); });
}

void map_foreground(Stream& stream, std::uint8_t* ids, std::uint8_t* confidence, float* outliers,
                    const ForegroundScores& input) {
    const ForegroundPlan plan = plan_foreground(input);
    if (plan.map.pixels() == 0) return;
    if (on_gpu(stream))
        map_foreground_on_gpu(stream.native(), ids, confidence, outliers, input.scores, plan);
    else
        stream.run_on_host(
            [=, scores = input.scores] { map_foreground_on_cpu(ids, confidence, outliers, scores, plan); });
}

void resize_pictures(Stream& stream, std::span<const PictureToResize> pictures) {
    expect(on_gpu(stream), "pictures are resized on a GPU where they were decoded there");
    if (!pictures.empty()) resize_on_gpu(stream.native(), plan_resize(pictures));
}

void make_pixels(Stream& stream, std::uint8_t* pixels, float* outliers, const PictureNumbers& input) {
    expect(input.rows >= 0 && input.per_row > 0, "pictures have pixels");
    expect(input.dtype == kFloat32 || input.dtype == kFloat16 || input.dtype == kBFloat16, "pictures have numbers");
    if (input.rows == 0) return;
    if (on_gpu(stream))
        make_pixels_on_gpu(stream.native(), pixels, outliers, input);
    else
        stream.run_on_host([=] { make_pixels_on_cpu(pixels, outliers, input); });
}

}  // namespace offramp::kernels
