#include "common/wire/tensor_spec.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

#include "common/base/error.hpp"
#include "common/wire/shape_text.hpp"

namespace offramp {

std::string to_string(DType dtype) {
    static constexpr std::string_view kKinds[] = {"int", "uint", "float", "", "bfloat", "complex", "bool"};
    if (dtype == kBool) return "bool";
    if (dtype.lanes == 1 && dtype.code < std::size(kKinds) && !kKinds[dtype.code].empty())
        return std::string(kKinds[dtype.code]) + std::to_string(dtype.bits);
    return "dtype(" + std::to_string(dtype.code) + "," + std::to_string(dtype.bits) + "," +
           std::to_string(dtype.lanes) + ")";
}

std::string shape_text(std::span<const std::int64_t> shape) {
    std::string text;
    for (const std::int64_t extent : shape)
        text += (text.empty() ? "" : ", ") + (extent == kVarying ? "?" : std::to_string(extent));
    return "[" + text + "]";
}

TensorSpec TensorSpec::contiguous(std::string name, DType dtype, std::span<const std::int64_t> shape) {
    expect(!shape.empty() && shape.size() <= kMaxDims, "a tensor has 1 to 8 dimensions");
    TensorSpec spec{.name = std::move(name), .dtype = dtype, .dims = shape.size()};
    std::copy(shape.begin(), shape.end(), spec.shape.begin());
    std::int64_t stride = 1;
    for (std::size_t d = spec.dims; d-- > 0;) {
        spec.strides[d] = stride;
        stride *= spec.shape[d];
    }
    return spec;
}

std::size_t TensorSpec::varying_dims() const {
    return static_cast<std::size_t>(
        std::count(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(dims), kVarying));
}

std::optional<std::size_t> TensorSpec::sample_bytes(std::span<const std::int64_t> extents, std::size_t most) const {
    if (std::ranges::any_of(extents, [](std::int64_t extent) { return extent > kMostExtent; })) return std::nullopt;
    if (std::ranges::find(extents, 0) != extents.end()) return 0;
    std::size_t bytes = dtype.bytes(), next = 0;
    for (std::size_t d = 1; d < dims; ++d) {
        const auto extent = static_cast<std::size_t>(shape[d] == kVarying ? extents[next++] : shape[d]);
        if (bytes > most / extent) return std::nullopt;
        bytes *= extent;
    }
    return bytes;
}

TensorSpec TensorSpec::of_sample(std::span<const std::int64_t> extents) const {
    TensorSpec sample = with_rows(1);
    std::size_t next = 0;
    std::int64_t stride = 1;
    for (std::size_t d = 1; d < dims; ++d)
        if (sample.shape[d] == kVarying) sample.shape[d] = extents[next++];
    const bool is_empty = std::ranges::find(extents, 0) != extents.end();
    for (std::size_t d = dims; d-- > 0;) {
        sample.strides[d] = stride;
        // The strides of an empty sample have no meaning, and could overflow.
        if (!is_empty) stride *= sample.shape[d];
    }
    return sample;
}

std::size_t TensorSpec::elements() const {
    std::size_t count = dims == 0 ? 0 : 1;
    for (std::size_t d = 0; d < dims; ++d) count *= static_cast<std::size_t>(shape[d]);
    return count;
}

std::size_t TensorSpec::row_bytes() const {
    std::size_t count = dims == 0 ? 0 : dtype.bytes();
    for (std::size_t d = 1; d < dims; ++d) count *= static_cast<std::size_t>(shape[d]);
    return count;
}

bool TensorSpec::dense_rows() const {
    if (dims == 0) return false;
    std::vector<std::size_t> order(dims - 1);
    std::iota(order.begin(), order.end(), std::size_t{1});
    std::stable_sort(order.begin(), order.end(),
                     [this](std::size_t a, std::size_t b) { return strides[a] < strides[b]; });
    std::int64_t expected = 1;
    for (const std::size_t d : order) {
        if (shape[d] == 1) continue;
        if (strides[d] != expected) return false;
        expected *= shape[d];
    }
    return shape[0] == 1 || strides[0] == expected;
}

TensorSpec TensorSpec::with_rows(std::int64_t rows) const {
    TensorSpec changed = *this;
    changed.shape[0] = rows;
    return changed;
}

std::string TensorSpec::describe() const {
    return name + " " + to_string(dtype) + " " + shape_text(std::span(shape).first(dims));
}

namespace {

// DLDataTypeCode.
constexpr std::uint8_t kInt = 0, kUInt = 1, kFloat = 2, kComplex = 5, kBoolean = 6;

bool is_machine_size(DType dtype) {
    const std::size_t size = dtype.bytes();
    return dtype.whole_bytes() && (size == 1 || size == 2 || size == 4 || size == 8);
}

}  // namespace

std::string safetensors_dtype(DType dtype) {
    const std::string bits = std::to_string(dtype.bits);
    if (dtype == kBFloat16) return "BF16";
    if (!is_machine_size(dtype)) return "";
    if (dtype.code == kInt) return "I" + bits;
    if (dtype.code == kUInt) return "U" + bits;
    if (dtype.code == kFloat && dtype.bits > 8) return "F" + bits;
    return dtype == kBool ? "BOOL" : "";
}

std::string npy_dtype(DType dtype) {
    const std::string order = dtype.bits == 8 ? "|" : "<";
    const std::string bytes = std::to_string(dtype.bytes());
    if (dtype.code == kComplex && dtype.whole_bytes() && (dtype.bytes() == 8 || dtype.bytes() == 16))
        return order + "c" + bytes;
    if (!is_machine_size(dtype)) return "";
    if (dtype.code == kInt) return order + "i" + bytes;
    if (dtype.code == kUInt) return order + "u" + bytes;
    if (dtype.code == kFloat && dtype.bits > 8) return order + "f" + bytes;
    return dtype.code == kBoolean && dtype.bits == 8 ? "|b1" : "";
}

TensorSpec with_settled_strides(TensorSpec tensor) {
    std::int64_t row = 1;
    for (std::size_t d = tensor.dims; d-- > 1;) {
        if (tensor.shape[d] == 1)
            tensor.strides[d] = d + 1 == tensor.dims ? 1 : tensor.strides[d + 1] * tensor.shape[d + 1];
        row *= tensor.shape[d];
    }
    if (tensor.dims > 0) tensor.strides[0] = row;  // rows are dense
    return tensor;
}

bool has_strides(std::span<const std::int64_t> strides, const TensorSpec& tensor) {
    if (strides.size() != tensor.dims) return false;
    for (std::size_t d = 0; d < tensor.dims; ++d)
        if (tensor.shape[d] > 1 && strides[d] != tensor.strides[d]) return false;
    return true;
}

}  // namespace offramp
