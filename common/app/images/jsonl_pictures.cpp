#include "common/app/images/jsonl_pictures.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/app/images/item_keys.hpp"
#include "common/app/images/unreadable_item.hpp"
#include "common/base/error.hpp"
#include "common/base/utf8.hpp"
#include "common/json/json_text.hpp"

namespace offramp {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::size_t kMostLineBytes = std::size_t{16} << 20;

[[noreturn]] void refuse(const std::string& input, const std::string& why, ErrorKind code) {
    throw ConfigError("--input '" + printable(input) + "': " + why,
                      "Give --input a file with one JSON object per line: {\"id\": \"7\", \"uri\": \"photos/7.jpg\"}; "
                      "for a folder of images, --source images",
                      code);
}

RegularFile open_manifest(const std::string& input) {
    if (input.empty()) refuse(input, "the source jsonl needs an input and none is given", ErrorKind::NoInput);
    try {
        return RegularFile(input);
    } catch (const Error& problem) {
        refuse(input, problem.what(), problem.kind());
    }
}

// Passes a file's lines without line ends to `take`; a line beyond kMostLineBytes is cut.
template <class Take>
void for_each_line(const RegularFile& file, const Take& take) {
    std::vector<char> block(std::size_t{1} << 20);
    std::string text;
    std::uint64_t offset = 0, bytes = 0;
    const auto end_line = [&](std::uint64_t with_end) {
        take(offset, bytes, std::string_view(text));
        offset += bytes + with_end;
        bytes = 0;
        text.clear();
    };
    std::size_t got = 0;
    for (std::uint64_t at = 0; (got = file.read_at(at, std::as_writable_bytes(std::span(block)))) > 0; at += got) {
        std::string_view left(block.data(), got);
        while (!left.empty()) {
            const std::size_t end = std::min(left.find('\n'), left.size());
            text += left.substr(0, std::min(end, kMostLineBytes + 1 - std::min(text.size(), kMostLineBytes + 1)));
            bytes += end;
            if (end < left.size()) end_line(1);
            left.remove_prefix(std::min(end + 1, left.size()));
        }
    }
    if (bytes > 0) end_line(0);
}

bool blank(std::string_view text) { return text.find_first_not_of(" \t\r") == std::string_view::npos; }

// The required fields of a line. Errors: UnreadableItem names the missing one.
struct Entry {
    std::optional<std::string> id;
    std::string uri;
    json columns;  // an object
};

Entry parse(std::string_view text) {
    if (text.size() > kMostLineBytes) throw UnreadableItem("longer than 16 MiB");
    Entry entry;
    entry.columns = parse_input_object(text);
    const auto uri = entry.columns.find("uri");
    if (uri == entry.columns.end()) throw UnreadableItem("it has no \"uri\"");
    if (!uri->is_string() || uri->get_ref<const std::string&>().empty())
        throw UnreadableItem("its \"uri\" is not text");
    entry.uri = uri->get<std::string>();
    entry.columns.erase(uri);
    if (const auto id = entry.columns.find("id"); id != entry.columns.end()) {
        if (id->is_string() && !id->get_ref<const std::string&>().empty())
            entry.id = id->get<std::string>();
        else if (id->is_number_integer())
            entry.id = id->dump();
        else
            throw UnreadableItem("its \"id\" is neither text nor a whole number");
        entry.columns.erase(id);
    }
    return entry;
}

int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

std::string without_percents(std::string_view text) {
    std::string plain;
    for (std::size_t at = 0; at < text.size(); ++at) {
        const int high = text[at] == '%' && at + 2 < text.size() ? hex_digit(text[at + 1]) : -1;
        const int low = high >= 0 ? hex_digit(text[at + 2]) : -1;
        if (low >= 0) at += 2;
        plain += low >= 0 ? static_cast<char>(high * 16 + low) : text[at];
    }
    return plain;
}

// The path of a URI. Errors: UnreadableItem: not the URI of a file.
std::string path_of(const std::string& uri) {
    std::string path = uri;
    if (const std::size_t scheme_end = uri.find("://");
        scheme_end != std::string::npos && uri.find('/') == scheme_end + 1) {
        if (uri.substr(0, scheme_end) != "file")
            throw UnreadableItem("its \"uri\" has the scheme '" + printable(uri.substr(0, scheme_end)) +
                                 "'; only local files are supported");
        const std::string_view rest = std::string_view(uri).substr(scheme_end + 3);
        const std::size_t path_begin = rest.find('/');
        const std::string_view host = rest.substr(0, path_begin);
        if (path_begin == std::string_view::npos || (!host.empty() && host != "localhost"))
            throw UnreadableItem("its \"uri\" names another machine; only local files are supported");
        path = without_percents(rest.substr(path_begin));
    }
    if (path.find('\0') != std::string::npos) throw UnreadableItem("its \"uri\" contains a NUL character");
    return path;
}

std::string line_label(std::uint64_t number) { return "line " + std::to_string(number); }

using nlohmann::json;

constexpr std::size_t kMostLevels = 64;
constexpr std::size_t kShownDigits = 40;
constexpr std::size_t kShownNameBytes = 60;

// Scans a text without the parser's callbacks, because those scan a whole array after each of its objects. For valid
// JSON, `on_member` gets each member's name in the outermost object, as written between the quotes. Returns true if the
// text has at most kMostLevels.
template <class OnMember>
bool look_through(std::string_view text, OnMember on_member) {
    std::size_t levels = 0, string_at = 0, string_end = 0;
    bool in_string = false;
    for (std::size_t at = 0; at < text.size(); ++at) {
        const char c = text[at];
        if (c == '"') {
            in_string = !in_string;
            (in_string ? string_at : string_end) = in_string ? at : at + 1;
        }
        if (in_string && c == '\\') ++at;
        if (in_string) continue;
        if (c == ':' && levels == 1) on_member(text.substr(string_at, string_end - string_at));
        if ((c == '[' || c == '{') && ++levels > kMostLevels) return false;
        if ((c == ']' || c == '}') && levels > 0) --levels;
    }
    return true;
}

// The repeated name, for an object with fewer members than in its text.
std::string repeated_name(std::string_view text) {
    std::set<std::string> names;
    std::string repeated;
    look_through(text, [&](std::string_view quoted) {
        auto name = parse_json(quoted).get<std::string>();
        if (!names.insert(name).second && repeated.empty()) repeated = std::move(name);
    });
    return printable(utf8_prefix(repeated, kShownNameBytes));
}

// Explains common syntax that is not JSON. `at`: the byte at which the parser failed, from 1.
std::string describe_json_error(std::string_view text, std::size_t at, std::string_view complaint) {
    const std::string_view rest = text.substr(std::min(at > 0 ? at - 1 : 0, text.size()));
    for (const std::string_view number : {"NaN", "Infinity"})
        if (rest.starts_with(number))
            return "JSON has no " + std::string(number) +
                   ": write null (in Python json.dumps(..., allow_nan=False) finds it)";
    if (complaint.find("surrogate") != std::string_view::npos)
        return "half of a surrogate pair (\\ud800 to \\udfff) is not a character: write U+FFFD for it (in Python "
               "text.encode('utf-16', 'surrogatepass').decode('utf-16', 'replace'))";
    return {};
}

bool is_beyond_64_bits(std::string_view digits) {
    std::int64_t whole = 0;
    std::uint64_t natural = 0;
    const char* const end = digits.data() + digits.size();
    const auto fits = [end](const std::from_chars_result& result) {
        return result.ec == std::errc() && result.ptr == end;
    };
    return digits.find_first_not_of("0123456789", digits.starts_with('-') ? 1 : 0) == std::string_view::npos &&
           !fits(std::from_chars(digits.data(), end, whole)) && !fits(std::from_chars(digits.data(), end, natural));
}

// Turns whole numbers beyond 64 bits into texts of their digits: the parser would round them to doubles.
std::string with_large_numbers_as_texts(std::string_view text) {
    constexpr std::size_t kDigitsOf64Bits = 19;
    std::string result;
    bool in_string = false;
    for (std::size_t at = 0; at < text.size();) {
        const char c = text[at];
        if (c == '"') in_string = !in_string;
        std::size_t bytes = in_string && c == '\\' ? 2 : 1;
        if (!in_string && (c == '-' || (c >= '0' && c <= '9')))
            bytes = std::min(text.find_first_not_of("+-.eE0123456789", at), text.size()) - at;
        const std::string_view part = text.substr(at, bytes);
        const bool is_large = !in_string && part.size() >= kDigitsOf64Bits && is_beyond_64_bits(part);
        (result += is_large ? "\"" : "").append(part) += is_large ? "\"" : "";
        at += bytes;
    }
    return result;
}

// Extracts the number from the parser's text "[...] number overflow parsing '1e999'".
std::string number_in(std::string_view complaint) {
    complaint.remove_prefix(std::min(complaint.find('\''), complaint.size() - 1) + 1);
    const std::string_view digits = complaint.substr(0, complaint.find('\''));
    return std::string(digits.substr(0, kShownDigits)) + (digits.size() > kShownDigits ? "..." : "");
}

}  // namespace

JsonlPictures::JsonlPictures(const std::string& input) : input_(input), file_(open_manifest(input)) {
    const fs::path parent = fs::path(input).parent_path();
    folder_ = parent.empty() ? "." : parent.string();
    try {
        read_lines();
    } catch (const Error& problem) {
        refuse(input, problem.what(), problem.kind());
    }
    if (lines_.empty()) refuse(input, "the manifest has no lines", ErrorKind::NoInput);
}

void JsonlPictures::read_lines() {
    std::uint64_t number = 0;
    for_each_line(file_, [&](std::uint64_t offset, std::uint64_t bytes, std::string_view text) {
        Line line{.number = ++number, .offset = offset, .bytes = bytes};
        if (number == 1 && text.starts_with("\xef\xbb\xbf")) {  // a byte-order mark, as Windows' editors write it
            text.remove_prefix(3);
            line.offset += 3;
            line.bytes -= 3;
        }
        if (text.size() < line.bytes || !blank(text)) take(line, text);
    });
    keys_ = ItemKeys(std::move(names_), NamesAre::Ids);
    ids_ = {};
}

void JsonlPictures::take(const Line& line, std::string_view text) {
    lines_.push_back(line);
    lines_.back().hash = XXH3_64bits(text.data(), text.size());
    try {
        const Entry entry = parse(text);
        const std::string path = path_of(entry.uri);
        if (entry.id)
            if (const auto other = ids_.add(*entry.id, names_.size(), [this](auto number) { return names_[number]; }))
                throw UnreadableItem("its id '" + printable(*entry.id) + "' is also the id of line " +
                                     std::to_string(lines_[*other].number));
        names_.push_back(entry.id ? *entry.id : without_image_extension(path));
        const std::string columns = entry.columns.empty() ? std::string() : json_text(entry.columns);
        lines_.back().columns_hash = columns.empty() ? 0 : XXH3_64bits(columns.data(), columns.size());
    } catch (const UnreadableItem& problem) {
        names_.push_back("line-" + std::to_string(line.number));
        unusable_.emplace(lines_.size() - 1, line_label(line.number) + ": " + problem.what());
    }
}

std::string JsonlPictures::description() const {
    return std::to_string(lines_.size()) + " lines of " + printable(input_) +
           (unusable_.empty() ? "" : ", " + std::to_string(unusable_.size()) + " of them unusable");
}

void JsonlPictures::check_usable(std::uint64_t picture) const {
    if (const auto why = unusable_.find(picture); why != unusable_.end()) throw UnreadableItem(why->second);
}

std::string JsonlPictures::text_of(std::uint64_t picture) const {
    const Line& line = lines_[picture];
    std::string text(line.bytes, '\0');
    std::size_t got = 0;
    try {
        got = file_.read_at(line.offset, std::as_writable_bytes(std::span(text)));
    } catch (const Error& problem) {
        throw UnreadableItem(line_label(line.number) + " " + problem.what());
    }
    if (got < text.size()) throw UnreadableItem(line_label(line.number) + " is missing: the manifest became shorter");
    if (XXH3_64bits(text.data(), text.size()) != line.hash)
        throw UnreadableItem(line_label(line.number) + " was changed since the manifest was listed");
    return text;
}

PicturePlace JsonlPictures::place(std::uint64_t picture) const {
    check_usable(picture);
    return (fs::path(folder_) / path_of(parse(text_of(picture)).uri)).string();
}

std::string JsonlPictures::origin(std::uint64_t picture) const {
    const std::string line = printable(input_) + ":" + std::to_string(lines_[picture].number);
    try {
        return line + " (" + printable(place(picture).path) + ")";
    } catch (const UnreadableItem&) {
        return line;
    }
}

std::string JsonlPictures::columns(std::uint64_t picture) const {
    check_usable(picture);
    return json_text(parse(text_of(picture)).columns);
}

json parse_input_object(std::string_view text) {
    std::size_t members = 0;
    if (!look_through(text, [&](std::string_view /*quoted*/) { ++members; }))
        throw UnreadableItem("nested deeper than " + std::to_string(kMostLevels) + " levels");
    json parsed;
    const std::string with_texts = with_large_numbers_as_texts(text);
    try {
        parsed = parse_json(with_texts);
    } catch (const json::parse_error& problem) {
        const std::string why = describe_json_error(with_texts, problem.byte, problem.what());
        throw UnreadableItem("not JSON: it breaks at byte " + std::to_string(problem.byte) +
                             (why.empty() ? "" : ", since " + why));
    } catch (const json::out_of_range& problem) {
        throw UnreadableItem("a number beyond the range of a double: '" + number_in(problem.what()) + "'");
    } catch (const json::exception& problem) {
        throw UnreadableItem(std::string("not JSON: ") + problem.what());
    }
    if (!parsed.is_object()) throw UnreadableItem(std::string("not a JSON object, but ") + parsed.type_name());
    if (parsed.size() != members)
        throw UnreadableItem("its \"" + repeated_name(with_texts) +
                             "\" appears more than once: give each value its own name");
    return parsed;
}

std::string without_not_numbers(std::string_view text) {
    constexpr std::string_view kNotNumbers[] = {"NaN", "Infinity", "-Infinity"};
    std::string result;
    bool in_string = false;
    for (std::size_t at = 0; at < text.size();) {
        const char c = text[at];
        if (c == '"') in_string = !in_string;
        const std::string_view rest = text.substr(at);
        const auto* const found =
            in_string
                ? std::end(kNotNumbers)
                : std::ranges::find_if(kNotNumbers, [&](std::string_view word) { return rest.starts_with(word); });
        if (found != std::end(kNotNumbers)) {
            result += "null";
            at += found->size();
            continue;
        }
        const std::size_t bytes = in_string && c == '\\' ? 2 : 1;
        result += text.substr(at, bytes);
        at += bytes;
    }
    return result;
}

}  // namespace offramp
