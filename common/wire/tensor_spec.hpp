#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace offramp {

// An element type. The codes are DLPack's DLDataTypeCode, so that any DLPack user can read them.
struct DType {
    std::uint8_t code = 2;
    std::uint8_t bits = 32;
    std::uint16_t lanes = 1;

    bool operator==(const DType&) const = default;
    std::size_t bytes() const { return (static_cast<std::size_t>(bits) * lanes + 7) / 8; }
    // The types that a slab can hold: one lane of 1 to 16 whole bytes.
    bool whole_bytes() const { return lanes == 1 && bits % 8 == 0 && bits >= 8 && bits <= 128; }
};

inline constexpr DType kInt64{0, 64, 1};
inline constexpr DType kInt32{0, 32, 1};
inline constexpr DType kInt16{0, 16, 1};
inline constexpr DType kInt8{0, 8, 1};
inline constexpr DType kUInt8{1, 8, 1};
inline constexpr DType kBool{6, 8, 1};
inline constexpr DType kFloat64{2, 64, 1};
inline constexpr DType kFloat32{2, 32, 1};
inline constexpr DType kFloat16{2, 16, 1};
inline constexpr DType kBFloat16{4, 16, 1};

// The name in NumPy and PyTorch: "float32", "bfloat16", "uint8", ...; "dtype(4,16,1)" for any other type.
std::string to_string(DType dtype);

inline constexpr std::size_t kMaxDims = 8;
inline constexpr std::size_t kMaxTensorName = 63;
// In a shape: samples differ in this dimension, which is not the first. OFFRAMP_VARIABLE in C.
inline constexpr std::int64_t kVarying = -1;
inline constexpr std::int64_t kMostExtent = std::int64_t{1} << 48;  // of a sample in such a dimension

// The name, element type, shape and strides of one tensor. Dimension 0 counts samples. Strides are in elements, as in
// DLPack and PyTorch; a tensor that varies has none. Holds no bytes and no pointer.
struct TensorSpec {
    std::string name;
    DType dtype;
    std::size_t dims = 0;
    std::array<std::int64_t, kMaxDims> shape{};
    std::array<std::int64_t, kMaxDims> strides{};

    // A row-major tensor with this shape.
    static TensorSpec contiguous(std::string name, DType dtype, std::span<const std::int64_t> shape);

    bool operator==(const TensorSpec&) const = default;

    std::int64_t rows() const { return dims == 0 ? 0 : shape[0]; }
    // True if samples differ in shape. elements() and row_bytes() are then undefined.
    bool varies() const { return varying_dims() > 0; }
    std::size_t varying_dims() const;
    // The bytes of one sample of a tensor that varies; nothing if they exceed `most`, or an extent kMostExtent.
    // `extents`: of the varying dimensions, in order, 0 or more.
    std::optional<std::size_t> sample_bytes(std::span<const std::int64_t> extents, std::size_t most) const;
    // The sample, of which sample_bytes() exist, as a row-major tensor of one row.
    TensorSpec of_sample(std::span<const std::int64_t> extents) const;
    std::size_t elements() const;
    // Bytes of one sample: shape[1..] times the element's bytes.
    std::size_t row_bytes() const;
    // True if every sample is one dense block (in any order of its dimensions) and samples are contiguous. The tensor
    // can then be copied unchanged, and cut between any two samples. Channels-last is dense.
    bool dense_rows() const;
    // The same tensor with another number of samples.
    TensorSpec with_rows(std::int64_t rows) const;
    // "logits float32 [64, 21, 512, 512]"; "?" in dimensions that vary
    std::string describe() const;
};

// The names of an element type in file formats; empty if the format does not have it. For users, use to_string().

// .safetensors: "F32", "BF16", "I64", "U8", "BOOL".
std::string safetensors_dtype(DType dtype);

// NumPy, little-endian: "<f4", "<i8", "|u1", "|b1", "<c8". NumPy has no bfloat16.
std::string npy_dtype(DType dtype);

// Returns the tensor, which has dense rows, with normalized strides for dimensions of size one. Their strides have no
// meaning and may have any value: a slice of a single channel keeps the stride of all channels. The new strides follow
// from the other dimensions: row-major if those are.
TensorSpec with_settled_strides(TensorSpec tensor);

// True if a tensor of the same shape with these strides has the layout of `tensor`.
bool has_strides(std::span<const std::int64_t> strides, const TensorSpec& tensor);

// "output logits float32 [64, 21, 512, 512]". Does not repeat the name "output", the name of an export's only output.
inline std::string describe_output(const TensorSpec& spec) {
    return spec.name == "output" ? spec.describe() : "output " + spec.describe();
}

}  // namespace offramp
