#include "consumer/processors/raw/npy_array.hpp"

#include "common/base/error.hpp"
#include "common/wire/dtype_names.hpp"
#include "common/wire/output_description.hpp"
#include "consumer/processors/raw/sample_array.hpp"

namespace offramp {
namespace {

// The bytes before the array: so many that a mapped file's array is aligned for every element type.
constexpr std::size_t kAlignment = 64;

// Errors: ConfigError for an element type that NumPy does not have.
std::string descr_of(const TensorSpec& spec, std::string_view processor) {
    // A bfloat16 is written as the float32 of its value.
    std::string name = npy_dtype(spec.dtype == kBFloat16 ? kFloat32 : spec.dtype);
    if (!name.empty()) return name;
    throw ConfigError("processor " + std::string(processor) + ": " + describe_output(spec) +
                          " has a type that NumPy does not support",
                      "Use --processor safetensors or write");
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
