#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/wire/tensor_spec.hpp"

namespace offramp {

inline constexpr std::size_t kPageBytes = 4096;

constexpr std::size_t round_up(std::size_t value, std::size_t multiple) {
    return (value + multiple - 1) / multiple * multiple;
}

// Arithmetic of a run's equal-sized slabs: where the header's tables and each output's bytes lie. Holds no memory.
// Every slab has room for `rows` samples of every output, so that the first bytes of each output lie at the same place
// in all slabs, however many samples one holds.
struct SlabLayout {
    std::int64_t rows = 0;         // most samples in a slab
    std::uint32_t batches = 0;     // most batches in a slab
    std::size_t key_capacity = 0;  // bytes for the samples' keys
    std::size_t tensors_offset = 0;
    std::size_t batches_offset = 0;
    std::size_t samples_offset = 0;
    std::size_t keys_offset = 0;
    std::size_t header_bytes = 0;      // payload starts here; whole pages
    std::vector<TensorSpec> tensors;   // with shape[0] == rows
    std::vector<std::size_t> offsets;  // of each tensor, from the payload's start
    std::size_t payload_bytes = 0;
    std::size_t slab_bytes = 0;  // header and payload, whole pages: from one slab to the next

    // `outputs`: the model's outputs, any number of rows. Errors: ConfigError when there are none or too many, when one
    // is not dense (TensorSpec::dense_rows), empty, too large, not of whole bytes (DType::whole_bytes), or named longer
    // than kMaxTensorName, or when rows or batches are not 1 to kMaxSamplesPerSlab. `max_key_bytes`: the source's
    // longest key, so that any `rows` samples fit.
    static SlabLayout make(const std::vector<TensorSpec>& outputs, std::int64_t rows, std::uint32_t batches = 1,
                           std::size_t max_key_bytes = 0);
};

// How the slabs lie in shared-memory objects: spans of whole slabs, so that reserving, faulting and page-locking run in
// parallel (faults of one object serialise). One span a slab up to `max_spans`, then equal shares.
struct SpanPlan {
    std::uint32_t slab_count = 0;
    std::uint32_t slabs_per_span = 0;
    std::uint32_t span_count = 0;
    std::size_t slab_bytes = 0;

    // 16 spans, and up to 64 in pools whose spans would be larger than 64 MiB: the first slab can be filled as soon as
    // the first span is there, so that should be small.
    static constexpr std::uint32_t kBySize = 0;
    static SpanPlan make(std::uint32_t slab_count, std::size_t slab_bytes, std::uint32_t max_spans = kBySize);

    std::uint32_t span_of(std::uint32_t slab) const { return slab / slabs_per_span; }
    std::size_t offset_in_span(std::uint32_t slab) const { return (slab % slabs_per_span) * slab_bytes; }
    std::uint32_t slabs_in(std::uint32_t span) const;  // the last span may hold fewer
    std::size_t span_bytes(std::uint32_t span) const { return slabs_in(span) * slab_bytes; }
    std::size_t total_bytes() const { return slab_count * slab_bytes; }
};

}  // namespace offramp
