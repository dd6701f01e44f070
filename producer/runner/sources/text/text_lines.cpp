#include "producer/runner/sources/text/text_lines.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

#include "common/base/error.hpp"
#include "common/base/utf8.hpp"
#include "common/images/unreadable_item.hpp"

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

// Where lines begin in [begin, end of the file), and where the last one ends.
std::vector<std::uint64_t> line_begins(const RegularFile& file) {
    std::vector<std::byte> block(kBlockBytes);
    std::vector<std::uint64_t> begins;
    std::uint64_t at = 0;
    while (const std::size_t got = file.read_at(at, block)) {
        const std::string_view text(reinterpret_cast<const char*>(block.data()), got);
        if (at == 0) begins.push_back(text.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0);
        for (std::size_t end = text.find('\n', at == 0 ? begins.front() : 0); end != std::string_view::npos;
             end = text.find('\n', end + 1))
            begins.push_back(at + end + 1);
        at += got;
    }
    if (begins.empty() || begins.back() != at) begins.push_back(at);
    return begins;
}

}  // namespace

TextLines::TextLines(const std::string& path) : file_(open(path)) {
    try {
        begins_ = line_begins(file_);
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
    if (line.ends_with('\n')) line.pop_back();
    if (line.ends_with('\r')) line.pop_back();
    return line;
}

std::string TextLines::text(std::uint64_t number) const {
    constexpr const char* kTooLong = "the line is longer than 1 MiB";
    if (is_too_long(number)) throw UnreadableItem(kTooLong);
    std::string text = line(number);
    if (text.size() > kLongest) throw UnreadableItem(kTooLong);
    if (!is_utf8(text)) throw UnreadableItem("the line is not UTF-8");
    return text;
}

}  // namespace offramp
