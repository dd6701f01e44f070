#include "producer/runner/sources/text/text_lines.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <string_view>
#include <utility>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/app/images/unreadable_item.hpp"
#include "common/base/error.hpp"
#include "common/base/utf8.hpp"

namespace offramp {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
constexpr std::size_t kBlockBytes = std::size_t{1} << 20;

[[noreturn]] void refuse(const std::string& path, const Error& reason) {
    throw ConfigError("--input '" + path + "' " + reason.what(), "Give a text file, one text a line", reason.kind());
}

RegularFile open(const std::string& path) try { return RegularFile(path); } catch (const Error& reason) {
    refuse(path, reason);
}

// A few bits identify each line: one changed line in four billion goes undetected.
std::uint32_t short_hash(std::uint64_t hash) { return static_cast<std::uint32_t>(hash ^ hash >> 32U); }

struct FoundLines {
    std::vector<std::uint64_t> begins;  // and the end of the last
    std::vector<std::uint32_t> hashes;
};

FoundLines find_lines(const RegularFile& file) {
    std::vector<std::byte> block(kBlockBytes);
    FoundLines found;
    const std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> hash(XXH3_createState(), &XXH3_freeState);
    XXH3_64bits_reset(hash.get());
    std::uint64_t at = 0;
    const auto end_line = [&](std::uint64_t end) {
        found.hashes.push_back(short_hash(XXH3_64bits_digest(hash.get())));
        XXH3_64bits_reset(hash.get());
        found.begins.push_back(end);
    };
    while (const std::size_t got = file.read_at(at, block)) {
        const std::string_view text(reinterpret_cast<const char*>(block.data()), got);
        std::size_t from = at == 0 && text.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
        if (at == 0) found.begins.push_back(from);
        while (from < got) {
            const std::size_t end = text.find('\n', from);
            const std::size_t behind = end == std::string_view::npos ? got : end + 1;
            XXH3_64bits_update(hash.get(), text.data() + from, behind - from);
            if (end != std::string_view::npos) end_line(at + behind);
            from = behind;
        }
        at += got;
    }
    if (found.begins.empty()) found.begins.push_back(at);
    if (found.begins.back() != at) end_line(at);
    return found;
}

}  // namespace

TextLines::TextLines(const std::string& path, std::uint64_t longest) : file_(open(path)), longest_(longest) {
    try {
        FoundLines found = find_lines(file_);
        begins_ = std::move(found.begins);
        hashes_ = std::move(found.hashes);
    } catch (const Error& reason) {
        refuse(path, reason);
    }
}

void require_lines(const std::string& path) {
    std::array<std::byte, kByteOrderMark.size() + 1> front{};
    std::string_view text;
    const RegularFile file = open(path);
    try {
        text = std::string_view(reinterpret_cast<const char*>(front.data()), file.read_at(0, front));
    } catch (const Error& reason) {
        refuse(path, reason);
    }
    if (is_utf16(text))
        throw ConfigError("--input '" + path + "' is UTF-16, not UTF-8", kFromUtf16, ErrorKind::BadInput);
    if (text.empty() || text == kByteOrderMark)
        throw ConfigError("--input '" + path + "' has no lines", "Give a text file, one text a line",
                          ErrorKind::NoInput);
}

std::string TextLines::line(std::uint64_t number) const {
    std::string line(bytes(number), '\0');
    try {
        if (file_.read_at(begins_[number], std::as_writable_bytes(std::span(line))) < line.size())
            throw UnreadableItem("the file became shorter");
    } catch (const Error& reason) {
        throw UnreadableItem(reason.what());
    }
    if (short_hash(XXH3_64bits(line.data(), line.size())) != hashes_[number])
        throw UnreadableItem("the line was changed since the run began");
    if (line.ends_with('\n')) line.pop_back();
    if (line.ends_with('\r')) line.pop_back();
    return line;
}

std::string TextLines::text(std::uint64_t number) const {
    const auto refuse_long = [this] {
        throw UnreadableItem("the line is longer than " + std::to_string(longest_ >> 20U) + " MiB");
    };
    if (is_too_long(number)) refuse_long();
    std::string text = line(number);
    if (text.size() > longest_) refuse_long();
    if (!is_utf8(text)) throw UnreadableItem("the line is not UTF-8");
    return text;
}

}  // namespace offramp
