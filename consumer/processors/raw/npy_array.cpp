#include "consumer/processors/raw/npy_array.hpp"

#include "common/base/error.hpp"
#include "common/wire/output_description.hpp"
#include "consumer/processors/raw/sample_array.hpp"

namespace offramp {
namespace {

// The bytes before the array: so many that a mapped file's array is aligned for every element type.
constexpr std::size_t kAlignment = 64;

// NumPy's word for an element type, in little endian. Errors: ConfigError for what NumPy has no word for.
std::string descr_of(const TensorSpec& spec, std::string_view processor) {
    const std::string bytes = std::to_string(spec.dtype.bytes());
    const char* order = spec.dtype.bytes() == 1 ? "|" : "<";
    const std::size_t size = spec.dtype.bytes();
    const bool whole = size == 1 || size == 2 || size == 4 || size == 8;
    if (spec.dtype.code == 0 && whole) return order + ("i" + bytes);
    if (spec.dtype.code == 1 && whole) return order + ("u" + bytes);
    if (spec.dtype.code == 2 && whole && size > 1) return order + ("f" + bytes);
    if (spec.dtype == kBFloat16) return "<f4";
    if (spec.dtype.code == 5 && (size == 8 || size == 16)) return order + ("c" + bytes);
    if (spec.dtype.code == 6 && size == 1) return "|b1";
    throw ConfigError(
        "processor " + std::string(processor) + ": " + describe_output(spec) + " is of a type that NumPy does not have",
        "Take --processor safetensors or write");
}

}  // namespace

std::string npy_header(const TensorSpec& spec, std::string_view processor) {
    std::string shape;
    for (const std::int64_t side : sample_shape(spec)) shape += std::to_string(side) + ", ";
    if (shape.ends_with(", ")) shape.resize(shape.size() - (spec.dims > 2 ? 2 : 1));
    std::string text =
        "{'descr': '" + descr_of(spec, processor) + "', 'fortran_order': False, 'shape': (" + shape + "), }";
    constexpr std::string_view kMagic("\x93NUMPY\x01\x00", 8);
    const std::size_t before = kMagic.size() + 2;
    const std::size_t whole = (before + text.size() + 1 + kAlignment - 1) / kAlignment * kAlignment;
    text.append(whole - before - text.size() - 1, ' ');
    text += '\n';
    std::string header(kMagic);
    header += static_cast<char>(text.size() & 0xffU);
    header += static_cast<char>(text.size() >> 8U);
    return header + text;
}

std::span<const std::byte> NpyNumbers::of(DType dtype, std::span<const std::byte> elements) {
    if (dtype != kBFloat16) return elements;
    // A bfloat16 is the upper half of the float32 of its value.
    floats_.assign(elements.size() * 2, std::byte{0});
    for (std::size_t i = 0; i < elements.size(); i += 2) {
        floats_[2 * i + 2] = elements[i];
        floats_[2 * i + 3] = elements[i + 1];
    }
    return floats_;
}

}  // namespace offramp
