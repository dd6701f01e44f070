#include "consumer/sinks/output_name.hpp"

#include "common/base/error.hpp"

namespace offramp {
namespace {

[[noreturn]] void refuse(std::string_view key, const std::string& reason) {
    throw Error(ExitCode::BadInput, "sample key '" + escaped(key) + "' cannot name a file: " + reason,
                "Keys are relative paths without '.' and '..'; rename the item in the input");
}

bool is_control(char character) {
    const auto code = static_cast<unsigned char>(character);
    return code < 0x20 || code == 0x7f;
}

void check_part(std::string_view key, std::string_view part) {
    if (part.empty()) refuse(key, "it has an empty part");
    if (part == "." || part == "..") refuse(key, "it has the part '" + std::string(part) + "'");
    if (part.starts_with(kReservedPrefix))
        refuse(key, "names that begin with '" + std::string(kReservedPrefix) + "' are reserved");
}

}  // namespace

std::string sample_path(const std::string& folder, std::string_view key, std::string_view suffix) {
    if (key.empty()) refuse(key, "it is empty");
    if (key.front() == '/') refuse(key, "it is an absolute path");
    if (key.find('\0') != std::string_view::npos) refuse(key, "it has a NUL");
    for (std::size_t begin = 0; begin <= key.size();) {
        const std::size_t end = std::min(key.find('/', begin), key.size());
        check_part(key, key.substr(begin, end - begin));
        begin = end + 1;
    }
    std::string path = folder;
    path += '/';
    path += key;
    path += suffix;
    return path;
}

std::string_view checked_output_name(std::string_view name) {
    bool plain = !name.empty();
    for (const char character : name) plain = plain && character != '/' && !is_control(character);
    if (!plain)
        throw Error(ExitCode::BadInput, "output name '" + escaped(name) + "' cannot be part of a file name",
                    "Outputs are named without '/' and control characters");
    return name;
}

std::string escaped(std::string_view text) {
    static constexpr std::string_view kDigits = "0123456789abcdef";
    std::string result;
    for (const char character : text) {
        if (character == '\t') {
            result += "\\t";
        } else if (character == '\n') {
            result += "\\n";
        } else if (character == '\\') {
            result += "\\\\";
        } else if (is_control(character)) {
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
