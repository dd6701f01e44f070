#include "consumer/sinks/postgres/copy_rows.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "common/base/error.hpp"
#include "common/base/log.hpp"
#include "common/base/utf8.hpp"

namespace offramp {
namespace {

constexpr std::string_view kSignature("PGCOPY\n\377\r\n\0", 11);
constexpr std::uint32_t kNull = 0xffffffff;

static_assert(std::endian::native == std::endian::little, "numbers are little endian here and big endian there");

// Copies each number with its bytes reversed. Returns false when a number has all exponent bits set: it is infinite or
// NaN.
template <class Number>
bool reversed(std::span<const std::byte> numbers, std::byte* to) {
    constexpr Number kExponent = sizeof(Number) == 4 ? 0x7f800000 : 0x7c00;
    bool all_finite = true;
    for (std::size_t at = 0; at < numbers.size(); at += sizeof(Number)) {
        Number bits = 0;
        std::memcpy(&bits, numbers.data() + at, sizeof bits);
        all_finite &= (bits & kExponent) != kExponent;
        Number other = 0;
        for (std::size_t byte = 0; byte < sizeof(Number); ++byte)
            other = static_cast<Number>(other << 8 | (bits >> 8 * byte & 0xff));
        std::memcpy(to + at, &other, sizeof other);
    }
    return all_finite;
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
    bytes_.resize(bytes_.size() + numbers.size());
    const bool held = bytes_each == 4
                          ? reversed<std::uint32_t>(numbers, bytes_.data() + bytes_.size() - numbers.size())
                          : reversed<std::uint16_t>(numbers, bytes_.data() + bytes_.size() - numbers.size());
    if (held) return true;
    bytes_.resize(begin);
    null();
    return false;
}

std::span<const std::byte> CopyRows::finished() {
    put(0xffff, 2);
    return bytes_;
}

std::string postgres_text(std::string_view text) {
    if (is_utf8(text) && text.find('\0') == std::string_view::npos && text.find("\\x") == std::string_view::npos)
        return std::string(text);
    std::string held;
    while (!text.empty()) {
        const std::size_t bytes = text.front() == '\0' || text.front() == '\\' ? 0 : utf8_character_bytes(text);
        held += bytes > 0 ? std::string(text.substr(0, bytes))
                          : fmt::format("\\x{:02x}", static_cast<unsigned char>(text.front()));
        text.remove_prefix(std::max<std::size_t>(bytes, 1));
    }
    return held;
}

std::string postgres_json(std::string_view json) {
    constexpr std::string_view kNul = "\\u0000";
    if (json.find(kNul) == std::string_view::npos) return std::string(json);
    std::string held;
    for (std::size_t at = 0; at < json.size();) {
        if (json.substr(at).starts_with(kNul)) {
            held += "\\\\x00";
            at += kNul.size();
            continue;
        }
        const std::size_t characters = json[at] == '\\' ? 2 : 1;  // an escaped character begins no other escape
        held += json.substr(at, characters);
        at += characters;
    }
    return held;
}

}  // namespace offramp
