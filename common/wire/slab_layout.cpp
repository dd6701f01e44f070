#include "common/wire/slab_layout.hpp"

#include <algorithm>

#include "common/base/error.hpp"
#include "common/wire/slab_header.hpp"
#include "common/wire/tensor_spec.hpp"

namespace offramp {
namespace {

// Far above any memory size, and far below an overflow in a pool's arithmetic.
constexpr std::int64_t kMaxTensorBytes = std::int64_t{1} << 44;

// Throws if an output is empty, does not fit into a slab with `rows` rows, or has an unsupported element type.
void require_room_for_rows(const TensorSpec& output, std::int64_t rows) {
    if (output.dims == 0) throw ConfigError("output '" + output.name + "' has no dimension");
    if (!output.dtype.whole_bytes())
        throw ConfigError(describe_output(output) + " has elements that are not whole bytes",
                          "Cast it on the device first");
    const std::int64_t room = kMaxTensorBytes / static_cast<std::int64_t>(output.dtype.bytes()) / rows;
    std::int64_t elements = 1;
    for (std::size_t d = 1; d < output.dims; ++d) {
        const std::int64_t extent = output.shape[d];
        if (extent == kVarying) continue;
        if (extent < 1) throw ConfigError(describe_output(output) + " is empty");
        if (elements > room / extent)
            throw ConfigError(
                describe_output(output) + " is too large for a slab of " + std::to_string(rows) + " samples",
                "A slab holds at most " + std::to_string(kMaxTensorBytes) + " bytes of an output");
        elements *= extent;
    }
}

constexpr std::size_t kSpanTarget = std::size_t{64} << 20;
constexpr std::size_t kFewSpans = 16;
constexpr std::size_t kManySpans = 64;

}  // namespace

SlabLayout SlabLayout::make(const std::vector<TensorSpec>& outputs, std::int64_t rows, std::uint32_t batches,
                            std::size_t max_text_bytes, std::size_t varying_bytes) {
    if (outputs.empty() || outputs.size() > kMaxTensorsPerSlab)
        throw ConfigError("a batch has " + std::to_string(outputs.size()) + " tensors",
                          "A slab holds 1 to " + std::to_string(kMaxTensorsPerSlab));
    if (rows < 1 || rows > kMaxSamplesPerSlab || batches < 1 || batches > kMaxSamplesPerSlab)
        throw ConfigError("a slab of " + std::to_string(rows) + " samples and " + std::to_string(batches) +
                              " batches cannot be laid out",
                          "Samples: 1 to " + std::to_string(kMaxSamplesPerSlab) + "; batches likewise");
    SlabLayout layout{.rows = rows, .batches = batches};
    expect(max_text_bytes <= kMaxKeyBytes + kMaxMetadataBytes, "a sample's texts are within their limits");
    layout.text_capacity = static_cast<std::size_t>(rows) * max_text_bytes;
    layout.tensors_offset = sizeof(SlabHeader);
    layout.batches_offset = layout.tensors_offset + outputs.size() * sizeof(TensorRecord);
    layout.samples_offset = layout.batches_offset + batches * sizeof(BatchRecord);
    layout.texts_offset = layout.samples_offset + static_cast<std::size_t>(rows) * sizeof(SampleRecord);
    for (const TensorSpec& output : outputs) {
        layout.extent_places.push_back(layout.extent_words);
        if (output.varies()) layout.extent_words += 1 + output.varying_dims();
    }
    layout.header_bytes = layout.texts_offset + layout.text_capacity;
    if (layout.varies()) {
        layout.extents_offset = round_up(layout.header_bytes, sizeof(std::uint64_t));
        layout.header_bytes =
            layout.extents_offset + static_cast<std::size_t>(rows) * layout.extent_words * sizeof(std::uint64_t);
    }
    layout.header_bytes = round_up(layout.header_bytes, kPageBytes);

    std::size_t offset = 0;
    for (const TensorSpec& output : outputs) {
        if (output.name.empty() || output.name.size() > kMaxTensorName)
            throw ConfigError("output name '" + output.name + "' cannot be stored",
                              "Names have 1 to " + std::to_string(kMaxTensorName) + " bytes");
        require_room_for_rows(output, rows);
        if (output.varies()) {
            layout.tensors.push_back(output.with_rows(rows));
            layout.tensors.back().strides = {};
            layout.offsets.push_back(0);
            continue;
        }
        if (!output.dense_rows())
            throw ConfigError(describe_output(output) + " is not dense", "Pack it on the device first");
        layout.tensors.push_back(with_settled_strides(output.with_rows(rows)));
        layout.offsets.push_back(offset);
        offset = round_up(offset + static_cast<std::size_t>(rows) * output.row_bytes(), kPayloadAlignment);
    }
    if (layout.varies()) {
        if (varying_bytes > static_cast<std::size_t>(kMaxTensorBytes))
            throw ConfigError("a slab of " + std::to_string(varying_bytes) + " bytes is too large",
                              "Give at most " + std::to_string(kMaxTensorBytes));
        layout.varying_offset = offset;
        layout.varying_bytes = round_up(varying_bytes, kSampleAlignment);
        offset += layout.varying_bytes;
    }
    layout.payload_bytes = offset;
    layout.slab_bytes = round_up(layout.header_bytes + offset, kPageBytes);
    return layout;
}

std::uint32_t SlabLayout::samples_with_room(std::size_t used, std::span<const std::size_t> bytes) const {
    std::size_t end = round_up(used, kSampleAlignment);
    std::uint32_t samples = 0;
    while (samples < bytes.size() && (end += bytes[samples]) <= varying_bytes) ++samples;
    return samples;
}

SpanPlan SpanPlan::make(std::uint32_t slab_count, std::size_t slab_bytes, std::uint32_t max_spans) {
    expect(slab_count > 0 && slab_bytes > 0, "a pool has slabs and bytes");
    if (max_spans == kBySize)
        max_spans =
            static_cast<std::uint32_t>(std::clamp(slab_count * slab_bytes / kSpanTarget, kFewSpans, kManySpans));
    const std::uint32_t per_span = (slab_count + max_spans - 1) / max_spans;
    return {slab_count, per_span, (slab_count + per_span - 1) / per_span, slab_bytes};
}

std::uint32_t SpanPlan::slabs_in(std::uint32_t span) const {
    return std::min(slabs_per_span, slab_count - span * slabs_per_span);
}

}  // namespace offramp
