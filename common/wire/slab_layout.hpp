#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/wire/tensor_spec.hpp"

namespace offramp {

inline constexpr std::size_t kPageBytes = 4096;

constexpr std::size_t round_up(std::size_t value, std::size_t multiple) {
    return (value + multiple - 1) / multiple * multiple;
}

// The layout of a run's equal-sized slabs: the offsets of the header's tables and of each output's bytes. Holds no
// memory. Every slab has room for `rows` samples of every output, so an output has the same offset in all slabs,
// independent of the number of samples. Outputs whose samples differ in shape share the area behind the others.
struct SlabLayout {
    std::int64_t rows = 0;          // most samples in a slab
    std::uint32_t batches = 0;      // most batches in a slab
    std::size_t text_capacity = 0;  // bytes for the samples' keys and metadata
    std::size_t tensors_offset = 0;
    std::size_t batches_offset = 0;
    std::size_t samples_offset = 0;
    std::size_t texts_offset = 0;
    std::size_t extents_offset = 0;          // 0: no output varies
    std::size_t extent_words = 0;            // uint64 per sample in the extents table
    std::size_t header_bytes = 0;            // payload starts here; whole pages
    std::vector<TensorSpec> tensors;         // with shape[0] == rows
    std::vector<std::size_t> extent_places;  // of each tensor in a sample's entry of the extents table
    std::vector<std::size_t> offsets;        // of each tensor, from the start of the payload; 0 if it varies
    std::size_t varying_offset = 0;          // of the area for outputs that vary
    std::size_t varying_bytes = 0;           // its size, a multiple of kSampleAlignment
    std::size_t payload_bytes = 0;
    std::size_t slab_bytes = 0;  // header and payload, in whole pages: the distance between slabs

    bool varies() const { return extent_words > 0; }
    // How many samples, from the first, have room in the area for outputs that vary, behind its first `used` bytes.
    // `bytes`: of each sample in all these outputs, each rounded up to kSampleAlignment.
    std::uint32_t samples_with_room(std::size_t used, std::span<const std::size_t> bytes) const;

    // `outputs`: the model's outputs with any number of rows. `max_text_bytes`: of a sample's key and metadata, so that
    // any `rows` samples fit. `varying_bytes`: for all outputs that vary. Errors: ConfigError if there are no outputs
    // or too many; if rows or batches are not 1 to kMaxSamplesPerSlab; if an output is not dense
    // (TensorSpec::dense_rows), is empty or too large, does not have whole bytes (DType::whole_bytes), or has a name
    // longer than kMaxTensorName.
    static SlabLayout make(const std::vector<TensorSpec>& outputs, std::int64_t rows, std::uint32_t batches = 1,
                           std::size_t max_text_bytes = 0, std::size_t varying_bytes = 0);
};

// The distribution of slabs over shared-memory objects: spans of whole slabs, so that reserving, faulting and
// page-locking run in parallel (faults in one object serialise). One span per slab up to `max_spans`, then equal
// shares.
struct SpanPlan {
    std::uint32_t slab_count = 0;
    std::uint32_t slabs_per_span = 0;
    std::uint32_t span_count = 0;
    std::size_t slab_bytes = 0;

    // 16 spans, and up to 64 if spans would be larger than 64 MiB. The first slab can be filled once the first span
    // exists, so spans should be small.
    static constexpr std::uint32_t kBySize = 0;
    static SpanPlan make(std::uint32_t slab_count, std::size_t slab_bytes, std::uint32_t max_spans = kBySize);

    std::uint32_t span_of(std::uint32_t slab) const { return slab / slabs_per_span; }
    std::size_t offset_in_span(std::uint32_t slab) const { return (slab % slabs_per_span) * slab_bytes; }
    std::uint32_t slabs_in(std::uint32_t span) const;  // the last span may have fewer
    std::size_t span_bytes(std::uint32_t span) const { return slabs_in(span) * slab_bytes; }
    std::size_t total_bytes() const { return slab_count * slab_bytes; }
};

}  // namespace offramp
