#include "producer/runner/transforms/output_transformer.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "common/base/error.hpp"
#include "common/wire/slab_layout.hpp"
#include "common/wire/tensor_spec.hpp"
#include "producer/runner/kernels/kernels.hpp"

namespace offramp {
namespace {

constexpr std::int64_t kMostClasses = 256;  // a class is one byte

OutputTransform transform_named(const std::string& name) {
    if (name == "none") return OutputTransform::None;
    if (name == "cast") return OutputTransform::Cast;
    if (name == "class-map") return OutputTransform::ClassMap;
    if (name == "low-res") return OutputTransform::LowRes;
    throw ConfigError("--transform '" + name + "' is unknown", "Accepted: none, cast, class-map, low-res");
}

// The resulting element type; float32 means unchanged.
DType type_after(OutputTransform transform, const std::string& name) {
    const bool casts = transform == OutputTransform::Cast;
    if (!casts && transform != OutputTransform::LowRes) {
        if (name == "auto") return kFloat32;
        throw ConfigError("--output-dtype " + name + " does not go with --transform " +
                              (transform == OutputTransform::None ? "none" : "class-map"),
                          "Use --transform cast or low-res, or leave --output-dtype out");
    }
    if (name == "fp16" || (casts && name == "auto")) return kFloat16;
    if (name == "bf16") return kBFloat16;
    if (name == "auto" || (!casts && name == "fp32")) return kFloat32;
    throw ConfigError("--output-dtype " + name + " does not go with --transform " + (casts ? "cast" : "low-res"),
                      casts ? "Accepted: auto, fp16, bf16" : "Accepted: auto, fp32, fp16, bf16");
}

// Row-major. The stride of a dimension of one element is irrelevant: networks compiled for channels-last have any value
// there.
bool is_scores(const TensorSpec& output) {
    if (output.dims != 4 || output.dtype != kFloat32) return false;
    const TensorSpec plain = TensorSpec::contiguous(output.name, kFloat32, std::span(output.shape).first(output.dims));
    for (std::size_t dim = 0; dim < output.dims; ++dim)
        if (output.shape[dim] > 1 && output.strides[dim] != plain.strides[dim]) return false;
    return true;
}

}  // namespace

OutputTransformer::OutputTransformer(Device& device, const std::vector<TensorSpec>& outputs,
                                     std::uint32_t upsample_factor, const TransformSettings& settings)
    : device_(device),
      settings_(settings),
      transform_(transform_named(settings.transform)),
      upsample_factor_(upsample_factor),
      outliers_([&device, rows = outputs.empty() ? 0 : outputs.front().shape[0]] {
          return device.allocate_pinned_host(static_cast<std::size_t>(rows) * sizeof(float),
                                             "what is wrong with scores of one channel");
      }) {
    if (settings.confidence && transform_ != OutputTransform::ClassMap)
        throw ConfigError("--confidence does not go with --transform " + settings.transform,
                          "Use --transform class-map, or leave --confidence out");
    const DType type = type_after(transform_, settings.output_dtype);
    check_fits(outputs);
    for (const TensorSpec& output : outputs) {
        if (transform_ == OutputTransform::ClassMap)
            plan_class_map(output, outputs.size() == 1 ? "" : output.name + ".");
        else if (type != kFloat32)
            plan_cast(output, type);
        else
            made_.push_back(output);
    }
    if (settings.encoded) pixels_.emplace(device, made_, *settings.encoded);
}

// Finds outputs that do not fit the transform.
void OutputTransformer::check_fits(const std::vector<TensorSpec>& outputs) const {
    if (transform_ == OutputTransform::None) return;
    if (transform_ == OutputTransform::LowRes && upsample_factor_ == 1)
        throw ConfigError("--transform low-res: the model has no last enlargement to leave out",
                          "Accepted: none, cast, and for class scores class-map");
    for (const TensorSpec& output : outputs) {
        const std::string what = "--transform " + settings_.transform + " does not fit the " + describe_output(output);
        if (transform_ == OutputTransform::Cast) {
            if (output.dtype != kFloat32 || (!output.varies() && !output.dense_rows()))
                throw ConfigError(what, "Accepted: float32 outputs; use --transform none");
            continue;
        }
        if (!is_scores(output))
            throw ConfigError(what,
                              output.dims == 4 && output.dtype == kFloat32
                                  ? "Its memory layout is not contiguous: export the model again with "
                                    "--memory-format contiguous, or use --transform none"
                                  : "Accepted: float32 outputs [B, classes, height, width]; use --transform none");
        if (transform_ == OutputTransform::ClassMap && (output.shape[1] < 1 || output.shape[1] > kMostClasses))
            throw ConfigError(what, "Accepted: 1 to 256 classes; use --transform none or cast");
    }
}

void OutputTransformer::plan_cast(const TensorSpec& output, DType type) {
    TensorSpec& made = made_.emplace_back(output);
    made.dtype = type;
    add_pool(made.name);
}

std::size_t OutputTransformer::most_bytes_of_sample(std::size_t index) const {
    return made_[index].of_sample(settings_.largest[index]).row_bytes();
}

std::size_t OutputTransformer::most_varying_bytes() const {
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < made_.size(); ++i)
        if (outputs()[i].varies())
            bytes += round_up(encodes(i) ? pixels_->most_bytes(i) : most_bytes_of_sample(i), kSampleAlignment);
    return bytes;
}

void OutputTransformer::plan_class_map(const TensorSpec& output, const std::string& prefix) {
    const std::array<std::int64_t, 3> shape{output.shape[0], output.shape[2] * upsample_factor_,
                                            output.shape[3] * upsample_factor_};
    for (const char* plane : {"classes", "confidence"}) {
        if (plane == std::string_view("confidence") && !settings_.confidence) continue;
        const TensorSpec& made = made_.emplace_back(TensorSpec::contiguous(prefix + plane, kUInt8, shape));
        add_pool(made.name);
    }
}

void OutputTransformer::add_pool(const std::string& output) {
    pools_.emplace_back([purpose = "the output '" + output + "' of --transform " + settings_.transform] {
        return std::make_unique<Growing>(Growing{.buffer = nullptr, .purpose = purpose});
    });
}

std::vector<DeviceTensor> OutputTransformer::apply(Stream& compute, std::vector<DeviceTensor> native,
                                                   std::vector<RowOutliers>& outliers) {
    std::vector<DeviceTensor> made = transformed(compute, std::move(native), outliers);
    if (pixels_) pixels_->apply(compute, made, outliers);
    return made;
}

std::vector<DeviceTensor> OutputTransformer::transformed(Stream& compute, std::vector<DeviceTensor> native,
                                                         std::vector<RowOutliers>& outliers) {
    if (pools_.empty()) return native;
    std::vector<DeviceTensor> made;
    made.reserve(made_.size());
    for (const DeviceTensor& tensor : native) {
        if (transform_ == OutputTransform::ClassMap)
            map_classes(compute, tensor, made, outliers);
        else
            cast(compute, tensor, made);
    }
    // On the CPU the stream is a thread: wait, or the source is freed before it is read.
    if (!device_.is_gpu()) compute.synchronize();
    return made;
}

DeviceTensor OutputTransformer::take_made(std::size_t index, std::size_t bytes) {
    std::shared_ptr<Growing> memory = pools_[index].take();
    if (!memory->buffer || memory->buffer->bytes() < bytes) {
        memory->buffer.reset();
        memory->buffer = device_.allocate(std::max<std::size_t>(bytes, 1), memory->purpose);
    }
    std::byte* const data = memory->buffer->data();
    return {.spec = made_[index], .data = data, .owner = std::move(memory)};
}

void OutputTransformer::cast(Stream& compute, const DeviceTensor& from, std::vector<DeviceTensor>& made) {
    expect(made.size() < made_.size(), "the model returns the outputs that it declared");
    const TensorSpec& declared = made_[made.size()];
    const DType type = declared.dtype;
    // Batches of texts differ in length: room for the longest is made once.
    const bool of_tokens = declared.varies() && from.spec.dims + 1 == declared.dims;
    const std::size_t room =
        of_tokens ? static_cast<std::size_t>(declared.rows()) * most_bytes_of_sample(made.size()) : 0;
    DeviceTensor to = take_made(made.size(), std::max(room, from.spec.elements() * type.bytes()));
    if (declared.varies() || from.spec.rows() < declared.rows()) {
        to.spec = from.spec;
        to.spec.dtype = type;
    }
    expect(from.spec.elements() == to.spec.elements() && from.spec.dtype == kFloat32,
           "an output matches its declaration");
    kernels::cast(compute, const_cast<void*>(to.data), type, from.data, to.spec.elements());
    made.push_back(std::move(to));
}

void OutputTransformer::map_classes(Stream& compute, const DeviceTensor& from, std::vector<DeviceTensor>& made,
                                    std::vector<RowOutliers>& outliers) {
    const auto bytes = [](const DeviceTensor& tensor) {
        return static_cast<std::uint8_t*>(const_cast<void*>(tensor.data));
    };
    // Batches of items of their own shapes may have fewer rows.
    const auto take = [&] {
        DeviceTensor tensor = take_made(made.size());
        tensor.spec = tensor.spec.with_rows(from.spec.rows());
        return tensor;
    };
    DeviceTensor classes = take();
    expect(is_scores(from.spec) &&
               from.spec.shape[1] * static_cast<std::int64_t>(classes.spec.elements()) ==
                   static_cast<std::int64_t>(from.spec.elements()) * upsample_factor_ * upsample_factor_,
           "an output matches its declaration");
    std::uint8_t* confidence = nullptr;
    std::uint8_t* const ids = bytes(classes);
    made.push_back(std::move(classes));
    if (settings_.confidence) confidence = bytes(made.emplace_back(take()));
    if (from.spec.shape[1] == 1) {
        outliers.push_back({.output = describe_output(from.spec), .memory = outliers_.take()});
        kernels::map_foreground(compute, ids, confidence, reinterpret_cast<float*>(outliers.back().memory->data()),
                                {.scores = static_cast<const float*>(from.data),
                                 .rows = from.spec.shape[0],
                                 .height = from.spec.shape[2],
                                 .width = from.spec.shape[3],
                                 .upsample_factor = upsample_factor_,
                                 .scale = settings_.foreground});
        return;
    }
    kernels::map_classes(compute, ids, confidence,
                         {.scores = static_cast<const float*>(from.data),
                          .rows = from.spec.shape[0],
                          .classes = from.spec.shape[1],
                          .height = from.spec.shape[2],
                          .width = from.spec.shape[3],
                          .upsample_factor = upsample_factor_});
}

}  // namespace offramp
