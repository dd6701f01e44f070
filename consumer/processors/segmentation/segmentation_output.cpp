#include "consumer/processors/segmentation/segmentation_output.hpp"

#include <algorithm>
#include <cstring>

#include "common/base/error.hpp"
#include "common/wire/output_forms.hpp"
#include "common/wire/tensor_spec.hpp"
#include "consumer/processors/segmentation/enlarged_sample.hpp"
#include "consumer/sinks/files/output_name.hpp"

namespace offramp {
namespace {

// The plane beside a class map has the class map's shape.
bool is_confidence(const SlabContents& slab, const TensorSpec& spec) {
    return slab.transform == OutputTransform::ClassMap &&
           (spec.name == "confidence" || spec.name.ends_with(".confidence"));
}

// "classes" has "confidence", "aux.classes" has "aux.confidence".
const TensorView* confidence_of(const SlabContents& slab, const TensorSpec& classes) {
    const std::string prefix = classes.name.substr(0, classes.name.rfind('.') + 1);
    const auto found = std::ranges::find_if(slab.tensors, [&](const TensorView& tensor) {
        return is_confidence(slab, tensor.spec) && tensor.spec.name == prefix + "confidence";
    });
    return found == slab.tensors.end() ? nullptr : &*found;
}

// `reasons`: why the other outputs do not fit.
std::vector<SegmentationOutput> find_outputs(const SlabContents& slab, std::string& reasons) {
    std::vector<SegmentationOutput> fitting;
    for (const TensorView& tensor : slab.tensors) {
        if (is_confidence(slab, tensor.spec)) continue;
        const std::string reason = obstacle_to_masks(tensor.spec, slab.upsample_factor);
        if (!reason.empty())
            reasons += "; " + describe_output(tensor.spec) + ": " + reason;
        else if (is_class_scores(tensor.spec))
            fitting.push_back(
                {.tensor = &tensor, .confidence = nullptr, .upsample_factor = slab.upsample_factor, .suffix = {}});
        else
            fitting.push_back({.tensor = &tensor,
                               .confidence = confidence_of(slab, tensor.spec),
                               .upsample_factor = 1,
                               .suffix = {}});
    }
    if (fitting.size() > 1)
        for (SegmentationOutput& output : fitting)
            output.suffix = "." + std::string(checked_output_name(output.tensor->spec.name));
    return fitting;
}

[[noreturn]] void refuse_id(std::int64_t id, const TensorSpec& spec, const SampleView& sample) {
    throw ConfigError(describe_output(spec) + " of the item '" + sample.key + "' holds the class id " +
                          std::to_string(id) + "; a mask holds ids from 0 to " +
                          std::to_string(kMostClassesOfMasks - 1),
                      "Choose --processor npy, which writes any number, or make fewer classes");
}

// Ids of an argmax, converted to bytes.
template <class Id>
std::span<const std::uint8_t> narrowed(const TensorView& tensor, const SampleView& sample,
                                       std::vector<std::uint8_t>& scratch) {
    const TensorSpec& spec = tensor.spec;
    const std::byte* const from = tensor.row(sample.row).data();
    const std::int64_t height = spec.shape[spec.dims - 2], width = spec.shape[spec.dims - 1];
    const std::int64_t down = spec.strides[spec.dims - 2], across = spec.strides[spec.dims - 1];
    scratch.resize(static_cast<std::size_t>(height * width));
    std::size_t next = 0;
    for (std::int64_t y = 0; y < height; ++y)
        for (std::int64_t x = 0; x < width; ++x) {
            Id id = 0;
            std::memcpy(&id, from + static_cast<std::size_t>(y * down + x * across) * sizeof id, sizeof id);
            if (id < 0 || id >= kMostClassesOfMasks) refuse_id(id, spec, sample);
            scratch[next++] = static_cast<std::uint8_t>(id);
        }
    return scratch;
}

}  // namespace

std::uint32_t SegmentationOutput::width() const {
    return static_cast<std::uint32_t>(tensor->spec.shape[tensor->spec.dims - 1]) * upsample_factor;
}

std::uint32_t SegmentationOutput::height() const {
    return static_cast<std::uint32_t>(tensor->spec.shape[tensor->spec.dims - 2]) * upsample_factor;
}

ClassScores SegmentationOutput::scores(std::size_t row) const {
    const TensorSpec& spec = tensor->spec;
    const auto bytes = tensor->row(row);
    if (reinterpret_cast<std::uintptr_t>(bytes.data()) % spec.dtype.bytes() != 0)
        throw ProtocolError(describe_output(spec) + " is at an address that is not a multiple of its element's size");
    return {.data = bytes.data(),
            .dtype = spec.dtype,
            .classes = spec.shape[1],
            .height = spec.shape[2],
            .width = spec.shape[3],
            .class_stride = spec.strides[1],
            .row_stride = spec.strides[2],
            .column_stride = spec.strides[3]};
}

std::vector<SegmentationOutput> segmentation_outputs(const SlabContents& slab, std::string_view processor) {
    std::string reasons;
    std::vector<SegmentationOutput> fitting = find_outputs(slab, reasons);
    if (fitting.empty())
        throw ConfigError(
            "processor " + std::string(processor) + " cannot make masks of any output" + slab.origin() + reasons,
            "Give it the outputs of a segmentation, or choose another --processor");
    return fitting;
}

std::vector<SegmentationOutput> segmentation_outputs_if_any(const SlabContents& slab) {
    std::string reasons;
    return find_outputs(slab, reasons);
}

std::vector<std::string> segmentation_files(const SlabContents& slab, const SampleView& sample,
                                            std::string_view extension) {
    std::vector<std::string> files;
    for (const SegmentationOutput& output : segmentation_outputs_if_any(slab))
        files.push_back(sample_name(sample.key, output.suffix + std::string(extension)));
    return files;
}

std::span<const std::uint8_t> plane_of(const TensorView& tensor, const SampleView& sample,
                                       std::vector<std::uint8_t>& scratch) {
    const TensorSpec& spec = tensor.spec;
    const auto bytes = tensor.row(sample.row);
    const std::int64_t height = spec.shape[spec.dims - 2], width = spec.shape[spec.dims - 1];
    const std::int64_t down = spec.strides[spec.dims - 2], across = spec.strides[spec.dims - 1];
    if (spec.dtype == kInt64) return narrowed<std::int64_t>(tensor, sample, scratch);
    if (spec.dtype == kInt32) return narrowed<std::int32_t>(tensor, sample, scratch);
    const auto* values = reinterpret_cast<const std::uint8_t*>(bytes.data());
    if ((width == 1 || across == 1) && (height == 1 || down == width)) return {values, bytes.size()};
    scratch.resize(bytes.size());
    std::size_t next = 0;
    for (std::int64_t y = 0; y < height; ++y)
        for (std::int64_t x = 0; x < width; ++x) scratch[next++] = values[y * down + x * across];
    return scratch;
}

}  // namespace offramp
