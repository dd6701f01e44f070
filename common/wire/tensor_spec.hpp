#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace offramp {

// DLPack's type code: what an element is. The numbers are those of DLDataTypeCode, so that any DLPack user can read
// them.
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

// "float32", "bfloat16", "uint8", ... as numpy and PyTorch write them; "dtype(4,16,1)" for any other.
std::string to_string(DType dtype);

inline constexpr std::size_t kMaxDims = 8;
inline constexpr std::size_t kMaxTensorName = 63;

// States name, element type, shape and strides of one tensor. Dimension 0 counts samples. Strides are in elements, as
// in DLPack and PyTorch. Holds no bytes and no pointer.
struct TensorSpec {
    std::string name;
    DType dtype;
    std::size_t dims = 0;
    std::array<std::int64_t, kMaxDims> shape{};
    std::array<std::int64_t, kMaxDims> strides{};

    // A row-major tensor of this shape.
    static TensorSpec contiguous(std::string name, DType dtype, std::span<const std::int64_t> shape);

    bool operator==(const TensorSpec&) const = default;

    std::int64_t rows() const { return dims == 0 ? 0 : shape[0]; }
    std::size_t elements() const;
    // Bytes of one sample: shape[1..] times the element's bytes.
    std::size_t row_bytes() const;
    // True when every sample is one dense block (in any order of its dimensions) and samples follow one another without
    // a gap: such a tensor can be copied unchanged, and cut between any two samples. Channels-last is dense.
    bool dense_rows() const;
    // The same tensor with another number of samples.
    TensorSpec with_rows(std::int64_t rows) const;
    // "logits float32 [64, 21, 512, 512]"
    std::string describe() const;
};

// The words of file formats for an element type; empty where the format has none. tensor_spec's to_string() has the
// word for people.

// .safetensors: "F32", "BF16", "I64", "U8", "BOOL".
std::string safetensors_dtype(DType dtype);

// NumPy's, in little endian: "<f4", "<i8", "|u1", "|b1", "<c8". It has none for bfloat16.
std::string npy_dtype(DType dtype);

// The stride of a dimension of one element counts for nothing, and makers of tensors leave anything in it: a slice of a
// single channel keeps that of all channels. The same tensor, of dense rows, with strides there that follow from the
// others: row-major where these are.
TensorSpec with_settled_strides(TensorSpec tensor);

// True if a tensor of this shape with these strides has the layout of `tensor`.
bool has_strides(std::span<const std::int64_t> strides, const TensorSpec& tensor);

// "output logits float32 [64, 21, 512, 512]"; one that is called "output", as an export's only one is, is not called so
// twice.
inline std::string describe_output(const TensorSpec& spec) {
    return spec.name == "output" ? spec.describe() : "output " + spec.describe();
}

}  // namespace offramp
