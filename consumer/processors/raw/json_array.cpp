#include "consumer/processors/raw/json_array.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "common/base/error.hpp"
#include "common/numerics/float16_bits.hpp"
#include "common/wire/output_description.hpp"

namespace offramp {
namespace {

template <class Number>
void append_number(std::string& text, Number number) {
    if constexpr (std::is_floating_point_v<Number>) {
        if (!std::isfinite(number)) {
            text += "null";
            return;
        }
        // Many readers take "-0" for a whole number, which has no sign then.
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

// False: no such type.
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
