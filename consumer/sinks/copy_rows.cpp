#include "consumer/sinks/copy_rows.hpp"

#include "common/base/error.hpp"

namespace offramp {
namespace {

constexpr std::string_view kSignature("PGCOPY\n\377\r\n\0", 11);
constexpr std::uint32_t kNull = 0xffffffff;

std::uint32_t little_endian(std::span<const std::byte> bytes) {
    std::uint32_t value = 0;
    for (std::size_t i = bytes.size(); i > 0; --i) value = value << 8 | std::to_integer<std::uint32_t>(bytes[i - 1]);
    return value;
}

// All bits of the exponent are set: infinite, or no number.
bool is_finite(std::uint32_t bits, std::size_t bytes) {
    const std::uint32_t exponent = bytes == 4 ? 0x7f800000 : 0x7c00;
    return (bits & exponent) != exponent;
}

}  // namespace

void CopyRows::clear() {
    bytes_.clear();
    rows_ = 0;
    put(kSignature);
    put(0, 4);
    put(0, 4);
}

void CopyRows::put(std::uint64_t value, std::size_t bytes) {
    for (std::size_t i = bytes; i > 0; --i) bytes_.push_back(static_cast<std::byte>(value >> (8 * (i - 1)) & 0xff));
}

void CopyRows::put(std::string_view text) {
    const auto bytes = std::as_bytes(std::span(text));
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
}

void CopyRows::begin_row(std::int16_t fields) {
    put(static_cast<std::uint16_t>(fields), 2);
    ++rows_;
}

void CopyRows::text(std::string_view text) {
    put(text.size(), 4);
    put(text);
}

void CopyRows::number(std::int64_t number) {
    put(8, 4);
    put(static_cast<std::uint64_t>(number), 8);
}

void CopyRows::json(std::string_view text) {
    put(1 + text.size(), 4);
    put(1, 1);
    put(text);
}

void CopyRows::null() { put(kNull, 4); }

bool CopyRows::vector(std::span<const std::byte> numbers, std::size_t bytes_each) {
    expect(bytes_each == 4 || bytes_each == 2, "a vector of float32 or float16");
    const std::size_t begin = bytes_.size();
    put(4 + numbers.size(), 4);
    put(numbers.size() / bytes_each, 2);
    put(0, 2);
    for (; !numbers.empty(); numbers = numbers.subspan(bytes_each)) {
        const std::uint32_t bits = little_endian(numbers.first(bytes_each));
        if (!is_finite(bits, bytes_each)) {
            bytes_.resize(begin);
            null();
            return false;
        }
        put(bits, bytes_each);
    }
    return true;
}

std::span<const std::byte> CopyRows::finished() {
    put(0xffff, 2);
    return bytes_;
}

}  // namespace offramp
