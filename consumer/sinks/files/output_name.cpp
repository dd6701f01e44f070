#include "consumer/sinks/files/output_name.hpp"

#include <algorithm>

#include "common/base/error.hpp"
#include "common/base/utf8.hpp"

namespace offramp {
namespace {

constexpr std::size_t kLongestFileName = 255;

[[noreturn]] void refuse(std::string_view key, const std::string& reason) {
    throw Error(ErrorKind::BadInput, "sample key '" + escaped(key) + "' cannot name a file: " + reason,
                "Keys are relative paths without '.' and '..'; rename the item in the input");
}

// The length in bytes of the first character if it may not be shown unchanged, else 0. Bytes that are not UTF-8 stay.
std::size_t unprintable_bytes(std::string_view text) {
    const std::size_t bytes = utf8_character_bytes(text);
    return is_printable(text.substr(0, std::max<std::size_t>(bytes, 1))) ? 0 : std::max<std::size_t>(bytes, 1);
}

void check_part(std::string_view key, std::string_view part) {
    if (part.empty()) refuse(key, "it has an empty part");
    if (part == "." || part == "..") refuse(key, "it has the part '" + std::string(part) + "'");
    if (part.starts_with(kReservedPrefix))
        refuse(key, "names that begin with '" + std::string(kReservedPrefix) + "' are reserved");
}

}  // namespace

std::string sample_name(std::string_view key, std::string_view suffix) {
    const std::size_t last = key.find_last_of('/') + 1;
    const std::string part(key.substr(last));
    expect(suffix.size() < kLongestFileName / 2, "a suffix leaves room for a name");
    return std::string(key.substr(0, last)) + cut_text(part, kLongestFileName - suffix.size()) + std::string(suffix);
}

std::string sample_path(const std::string& folder, std::string_view key, std::string_view suffix) {
    if (key.empty()) refuse(key, "it is empty");
    if (key.front() == '/') refuse(key, "it is an absolute path");
    if (key.find('\0') != std::string_view::npos) refuse(key, "it has a NUL");
    for (std::size_t begin = 0; begin <= key.size();) {
        const std::size_t end = std::min(key.find('/', begin), key.size());
        check_part(key, key.substr(begin, end - begin));
        begin = end + 1;
    }
    return folder + '/' + sample_name(key, suffix);
}

std::string_view checked_output_name(std::string_view name) {
    bool plain = !name.empty();
    for (std::size_t at = 0; at < name.size(); ++at)
        plain = plain && name[at] != '/' && unprintable_bytes(name.substr(at)) == 0;
    if (!plain)
        throw Error(ErrorKind::BadInput, "output name '" + escaped(name) + "' cannot be part of a file name",
                    "Outputs are named without '/' and control characters");
    return name;
}

void fail_file_exists(const std::string& file, const std::string& what) {
    throw ConfigError(file + " exists and was made by another program, but this run's " + what + " there",
                      "Move it away, or give another --output");
}

std::string escaped(std::string_view text) {
    static constexpr std::string_view kDigits = "0123456789abcdef";
    std::string result;
    std::size_t hidden = 0;  // bytes of a character to escape
    for (std::size_t at = 0; at < text.size(); ++at) {
        const char character = text[at];
        if (hidden == 0) hidden = unprintable_bytes(text.substr(at));
        const bool shown = hidden == 0;
        if (!shown) --hidden;
        if (character == '\t') {
            result += "\\t";
        } else if (character == '\n') {
            result += "\\n";
        } else if (character == '\\') {
            result += "\\\\";
        } else if (!shown) {
            const auto code = static_cast<unsigned char>(character);
            result += "\\x";
            result += kDigits[code >> 4U];
            result += kDigits[code & 15U];
        } else {
            result += character;
        }
    }
    return result;
}

}  // namespace offramp
