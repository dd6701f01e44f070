#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

// The bytes at the beginning of every slab. They fully describe the payload, so that a reader needs no other data.
//
//   offset 0        SlabHeader (320 bytes)
//   tensors_offset  TensorRecord[tensor_count]    the place of each output, and its shape
//   batches_offset  BatchRecord[batch_count]      which rows of which batches the slab holds
//   samples_offset  SampleRecord[sample_count]    one per row of dimension 0: the source's item, its texts
//   texts_offset    char[text_bytes]              each sample's key, then its metadata; UTF-8, back to back
//   extents_offset  uint64[sample_count][n]       only if samples differ in shape: see below
//   header_bytes    payload: the tensors' bytes, each at TensorRecord::offset from the payload's start, 512-aligned
//
// A dimension in which samples differ is kVarying in TensorRecord::shape. Such a tensor is row-major; strides, offset
// and bytes of its record are 0. A sample's entry in the extents table has, for each such tensor in order, the offset
// of its bytes from the payload's start, then its extent in each varying dimension.
//
// All integers are little-endian. Offsets of tables count from the slab's first byte. A reader takes one copy of the
// header, checks every bound on the copy, and never reads a table entry twice.
//
// Version rule: raise kSlabHeaderVersion with any change of a field's place or meaning. A reader refuses any other
// version. The reserved areas are zero; a new field in them also raises the version. tests/unit/wire freezes the bytes.
namespace offramp {

inline constexpr std::uint64_t kSlabMagic = 0x42414c535246464fULL;  // "OFFRSLAB"
inline constexpr std::uint32_t kSlabHeaderVersion = 2;

inline constexpr std::uint32_t kMaxTensorsPerSlab = 16;
inline constexpr std::uint32_t kMaxSamplesPerSlab = 1U << 16;
inline constexpr std::uint32_t kMaxKeyBytes = 1024;
inline constexpr std::uint32_t kMaxMetadataBytes = 1U << 14;
inline constexpr std::uint32_t kMaxUpsampleFactor = 1024;
inline constexpr std::size_t kPayloadAlignment = 512;
inline constexpr std::size_t kSampleAlignment = 64;  // of samples that differ in shape, unless they follow one another

// The transform of a model's output before its copy. A reader needs it to interpret the values.
enum class OutputTransform : std::uint32_t { None = 0, Cast = 1, ClassMap = 2, LowRes = 3 };

struct SlabHeader {
    std::uint64_t magic;
    std::uint32_t version;
    std::uint32_t header_bytes;  // the payload starts here; a multiple of the page size
    std::uint64_t run_nonce;
    std::uint64_t generation;
    std::uint32_t epoch;
    std::uint32_t slab;
    std::uint64_t payload_bytes;  // from the payload's start to the end of the last tensor
    std::uint32_t tensor_count;
    std::uint32_t batch_count;
    std::uint32_t sample_count;
    std::uint32_t text_bytes;
    std::uint32_t tensors_offset;
    std::uint32_t batches_offset;
    std::uint32_t samples_offset;
    std::uint32_t texts_offset;
    std::uint32_t transform;                // OutputTransform
    std::uint32_t upsample_factor;          // LowRes: the factor by which to enlarge height and width; else 1
    std::uint64_t submitted_at_ns;          // CLOCK_MONOTONIC: the copy was enqueued on the egress stream
    std::uint64_t filled_at_ns;             // CLOCK_MONOTONIC: the copy's event had completed
    std::array<char, 64> model;             // NUL-terminated
    std::array<char, 16> precision;         // "fp32", "tf32", "bf16": the model's precision
    std::array<char, 16> memory_format;     // "contiguous", "channels-last": the model's format
    std::array<std::uint8_t, 16> trace_id;  // W3C trace context; zero: none
    std::array<std::uint8_t, 8> span_id;
    std::uint64_t trace_flags;
    std::uint32_t extents_offset;  // 0: all samples have one shape
    std::array<std::uint8_t, 84> reserved;
};

struct TensorRecord {
    std::array<char, 64> name;  // NUL-terminated
    std::uint8_t dtype_code;    // DLPack
    std::uint8_t dtype_bits;
    std::uint16_t dtype_lanes;
    std::uint32_t dims;
    std::array<std::int64_t, 8> shape;    // dimension 0 counts the slab's samples; kVarying: see above
    std::array<std::int64_t, 8> strides;  // in elements
    std::uint64_t offset;                 // from the payload's start
    std::uint64_t bytes;
};

struct BatchRecord {
    std::uint64_t batch;      // number in the run's input, whose batches are consecutive items
    std::uint32_t first_row;  // the batch's row that is the slab's `first_sample`
    std::uint32_t rows;
    std::uint32_t first_sample;  // index into the slab's samples
    std::uint32_t reserved;
};

// A sample's bytes in shared memory: written from a SampleEntry, read as a SampleView (slab_view.hpp).
struct SampleRecord {
    std::uint64_t item;            // number of the item in the source
    std::uint32_t text_offset;     // of the key, in the area of texts
    std::uint32_t metadata_bytes;  // of a JSON object behind the key; 0: none
    std::uint16_t key_bytes;       // 0: the key is the item's number in decimal
    std::uint16_t flags;           // SampleFlags
    std::uint32_t reserved;
};

enum SampleFlags : std::uint16_t {
    kSampleEmpty = 1,  // the item is unreadable, or its outputs are meaningless: ignore its row
};

static_assert(sizeof(SlabHeader) == 320 && std::has_unique_object_representations_v<SlabHeader>);
static_assert(offsetof(SlabHeader, run_nonce) == 16 && offsetof(SlabHeader, payload_bytes) == 40);
static_assert(offsetof(SlabHeader, tensor_count) == 48 && offsetof(SlabHeader, tensors_offset) == 64);
static_assert(offsetof(SlabHeader, transform) == 80 && offsetof(SlabHeader, submitted_at_ns) == 88);
static_assert(offsetof(SlabHeader, model) == 104 && offsetof(SlabHeader, precision) == 168);
static_assert(offsetof(SlabHeader, trace_id) == 200 && offsetof(SlabHeader, extents_offset) == 232);
static_assert(sizeof(TensorRecord) == 216 && std::has_unique_object_representations_v<TensorRecord>);
static_assert(offsetof(TensorRecord, shape) == 72 && offsetof(TensorRecord, offset) == 200);
static_assert(sizeof(BatchRecord) == 24 && std::has_unique_object_representations_v<BatchRecord>);
static_assert(sizeof(SampleRecord) == 24 && std::has_unique_object_representations_v<SampleRecord>);

}  // namespace offramp
