#include "common/app/images/tar_index.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <string_view>

namespace offramp {
namespace {

constexpr std::size_t kBlock = 512;
constexpr std::uint64_t kMostNoteBytes = std::uint64_t{1} << 20;  // limit of a long name or of pax records
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 62;

using Block = std::array<char, kBlock>;

std::string_view field(const Block& block, std::size_t begin, std::size_t bytes) {
    const std::string_view whole(block.data() + begin, bytes);
    return whole.substr(0, whole.find('\0'));
}

// Reads octal digits among blanks, or a binary number if the first bit is set (GNU).
std::optional<std::uint64_t> number(const Block& block, std::size_t begin, std::size_t bytes) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(block[begin + i]); };
    std::uint64_t value = 0;
    if ((byte(0) & 0x80U) != 0) {
        for (std::size_t i = 0; i < bytes; ++i) {
            if (value > (kMostBytes >> 8U)) return std::nullopt;
            value = (value << 8U) | (i == 0 ? byte(0) & 0x7fU : byte(i));
        }
        return value;
    }
    std::string_view text = field(block, begin, bytes);
    while (text.starts_with(' ')) text.remove_prefix(1);
    while (text.ends_with(' ')) text.remove_suffix(1);
    const auto result = std::from_chars(text.data(), text.data() + text.size(), value, 8);
    if (!text.empty() && (result.ec != std::errc() || result.ptr != text.data() + text.size())) return std::nullopt;
    return value;
}

// Checks the sum of a header's bytes, with blanks for the sum itself. Some archivers used signed bytes.
bool sum_is_right(const Block& block) {
    constexpr std::size_t kBegin = 148, kBytes = 8;
    std::int64_t plain = 0, with_signs = 0;
    for (std::size_t i = 0; i < kBlock; ++i) {
        const char c = i >= kBegin && i < kBegin + kBytes ? ' ' : block[i];
        plain += static_cast<unsigned char>(c);
        with_signs += static_cast<signed char>(c);
    }
    const auto stored = number(block, kBegin, kBytes);
    return stored && (static_cast<std::int64_t>(*stored) == plain || static_cast<std::int64_t>(*stored) == with_signs);
}

// Extra headers' data about the next member.
struct Notes {
    std::optional<std::string> name;
    std::optional<std::uint64_t> bytes;
};

// Reads pax records, "LENGTH KEY=VALUE\n", where LENGTH is that of the whole record. Returns false if one is malformed.
bool read_pax(std::string_view records, Notes& notes) {
    while (!records.empty()) {
        std::size_t length = 0;
        const auto result = std::from_chars(records.data(), records.data() + records.size(), length);
        const auto digits = static_cast<std::size_t>(result.ptr - records.data());
        if (result.ec != std::errc() || length > records.size() || length < digits + 3 || records[digits] != ' ' ||
            records[length - 1] != '\n')
            return false;
        const std::string_view record = records.substr(digits + 1, length - digits - 2);
        const std::size_t equals = record.find('=');
        if (equals == std::string_view::npos) return false;
        const std::string_view key = record.substr(0, equals), value = record.substr(equals + 1);
        if (key == "path") notes.name = std::string(value.substr(0, value.find('\0')));
        if (key == "size") {
            std::uint64_t bytes = 0;
            const auto size = std::from_chars(value.data(), value.data() + value.size(), bytes);
            if (size.ec != std::errc() || size.ptr != value.data() + value.size() || bytes > kMostBytes) return false;
            notes.bytes = bytes;
        }
        records.remove_prefix(length);
    }
    return true;
}

std::string name_in(const Block& block) {
    // GNU's own has no prefix here
    const bool ustar = std::string_view(block.data() + 257, 6) == std::string_view("ustar\0", 6);
    const std::string_view prefix = ustar ? field(block, 345, 155) : std::string_view{};
    return (prefix.empty() ? std::string() : std::string(prefix) + "/") + std::string(field(block, 0, 100));
}

bool is_zero(const Block& block) {
    return std::ranges::all_of(block, [](char c) { return c == '\0'; });
}

// True if a header follows the end mark at `at` and the padding zeros.
bool has_header_behind(const std::function<std::size_t(std::uint64_t, char*, std::size_t)>& read_at, std::uint64_t at) {
    constexpr std::uint64_t kMostFilling = 2048;  // blocks
    Block block;
    for (std::uint64_t number = 1; number < kMostFilling; ++number) {
        if (read_at(at + number * kBlock, block.data(), kBlock) < kBlock) return false;
        if (!is_zero(block)) return sum_is_right(block);
    }
    return false;
}

std::string at_byte(std::uint64_t offset) { return "at byte " + std::to_string(offset); }

}  // namespace

std::optional<std::string> index_tar(const std::function<std::size_t(std::uint64_t, char*, std::size_t)>& read_at,
                                     const std::function<void(const TarMember&)>& take, TarLeftOut* left_out) {
    TarLeftOut uncounted;
    TarLeftOut& passed_over = left_out != nullptr ? *left_out : uncounted;
    Block block;
    Notes notes;
    for (std::uint64_t at = 0;;) {
        const std::size_t got = read_at(at, block.data(), kBlock);
        if (got == 0) return "truncated: it ends " + at_byte(at) + ", before its next member or its end mark";
        if (got < kBlock) return "truncated: it ends " + at_byte(at + got) + ", within a header";
        if (is_zero(block)) {
            if (left_out != nullptr) passed_over.continues_after_end = has_header_behind(read_at, at);
            return std::nullopt;
        }
        const auto stored = number(block, 124, 12);
        if (!sum_is_right(block) || !stored || *stored > kMostBytes) return "an invalid tar header " + at_byte(at);
        const char type = block[156];
        const bool is_note = type == 'x' || type == 'g' || type == 'L' || type == 'K';
        const std::uint64_t bytes = is_note ? *stored : notes.bytes.value_or(*stored);
        const std::uint64_t begin = at + kBlock;
        if (is_note) {
            if (bytes > kMostNoteBytes)
                return "an extended header of " + std::to_string(bytes) + " bytes " + at_byte(at);
            std::string text(bytes, '\0');
            const std::size_t there = read_at(begin, text.data(), text.size());
            if (there < text.size())
                return "truncated: it ends " + at_byte(begin + there) + ", within an extended header";
            if (type == 'L') notes.name = text.substr(0, text.find('\0'));
            if (type == 'x' && !read_pax(text, notes)) return "invalid pax records " + at_byte(begin);
        } else {
            const std::string name = notes.name ? *notes.name : name_in(block);
            const bool plain = type == '0' || type == '\0' || type == '7';
            passed_over.links += type == '1' || type == '2' ? 1 : 0;
            passed_over.sparse += type == 'S' ? 1 : 0;
            if (plain && !name.empty() && !name.ends_with('/')) take({.name = name, .offset = begin, .bytes = bytes});
            notes = {};
        }
        // Links and folders have no data, even if their header has a size.
        const bool without_bytes =
            type == '1' || type == '2' || type == '3' || type == '4' || type == '5' || type == '6';
        const std::uint64_t padded = without_bytes ? 0 : (bytes + kBlock - 1) / kBlock * kBlock;
        if (begin > kMostBytes || padded > kMostBytes) return "an invalid tar header " + at_byte(at);
        at = begin + padded;
    }
}

}  // namespace offramp
