#include "consumer/processors/raw/array_formats.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "common/base/error.hpp"
#include "common/numerics/float16_bits.hpp"
#include "common/wire/tensor_spec.hpp"
#include "consumer/processors/raw/sample_array.hpp"

namespace offramp {
namespace {

// The header's size is a multiple of this, so that a mapped file's array is aligned for every element type.
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

template <class Number>
void append_number(std::string& text, Number number) {
    if constexpr (std::is_floating_point_v<Number>) {
        if (!std::isfinite(number)) {
            text += "null";
            return;
        }
        // Many readers parse "-0" as an integer, which then loses its sign.
        if (number == 0 && std::signbit(number)) {
            text += "-0.0";
            return;
        }
    }
    std::array<char, 32> digits{};
    text.append(digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr);
}

template <class Stored, class Append>
void append_all(std::string& text, std::span<const std::byte> elements, Append&& append) {
    for (std::size_t at = 0; at < elements.size(); at += sizeof(Stored)) {
        if (at > 0) text += ',';
        Stored stored{};
        std::memcpy(&stored, elements.data() + at, sizeof stored);
        append(stored);
    }
}

template <class Number>
void append_numbers(std::string& text, std::span<const std::byte> elements) {
    append_all<Number>(text, elements, [&](Number number) { append_number(text, number); });
}

// Returns false for an unsupported type.
bool append_elements(std::string& text, DType dtype, std::span<const std::byte> elements) {
    const auto is = [dtype](std::uint8_t code, std::uint8_t bits) { return dtype == DType{code, bits, 1}; };
    if (dtype == kFloat32)
        append_numbers<float>(text, elements);
    else if (dtype == kFloat64)
        append_numbers<double>(text, elements);
    else if (dtype == kFloat16)
        append_all<std::uint16_t>(text, elements,
                                  [&](std::uint16_t bits) { append_number(text, float_of_float16(bits)); });
    else if (dtype == kBFloat16)
        append_all<std::uint16_t>(text, elements,
                                  [&](std::uint16_t bits) { append_number(text, float_of_bfloat16(bits)); });
    else if (dtype == kInt8)
        append_numbers<std::int8_t>(text, elements);
    else if (dtype == kInt16)
        append_numbers<std::int16_t>(text, elements);
    else if (dtype == kInt32)
        append_numbers<std::int32_t>(text, elements);
    else if (dtype == kInt64)
        append_numbers<std::int64_t>(text, elements);
    else if (dtype == kUInt8)
        append_numbers<std::uint8_t>(text, elements);
    else if (is(1, 16))
        append_numbers<std::uint16_t>(text, elements);
    else if (is(1, 32))
        append_numbers<std::uint32_t>(text, elements);
    else if (is(1, 64))
        append_numbers<std::uint64_t>(text, elements);
    else if (dtype == kBool)
        append_all<std::uint8_t>(text, elements, [&](std::uint8_t value) { text += value != 0 ? "true" : "false"; });
    else
        return false;
    return true;
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
    // A bfloat16 is the upper half of a float32 with the same value.
    floats_.assign(elements.size() * 2, std::byte{0});
    for (std::size_t i = 0; i < elements.size(); i += 2) {
        floats_[2 * i + 2] = elements[i];
        floats_[2 * i + 3] = elements[i + 1];
    }
    return floats_;
}

void append_json_array(std::string& text, const TensorSpec& spec, std::span<const std::byte> elements,
                       std::string_view processor) {
    text += '[';
    if (!append_elements(text, spec.dtype, elements))
        throw ConfigError("processor " + std::string(processor) + ": " + describe_output(spec) +
                              " has a type that JSON cannot represent",
                          "Use --http-body npy, or --processor safetensors");
    text += ']';
}

}  // namespace offramp
