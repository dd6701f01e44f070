#include "common/app/images/jsonl_pictures.hpp"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/app/images/input_json.hpp"
#include "common/app/images/item_keys.hpp"
#include "common/app/images/unreadable_item.hpp"
#include "common/base/error.hpp"
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

// Hands out a file's lines without their ends; of one that is longer than kMostLineBytes only as much.
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

// The path that a uri means. Errors: UnreadableItem: it means none.
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
    keys_ = make_item_keys(keys_, NamesAre::Ids);
    ids_ = {};
}

void JsonlPictures::take(const Line& line, std::string_view text) {
    lines_.push_back(line);
    lines_.back().hash = XXH3_64bits(text.data(), text.size());
    try {
        const Entry entry = parse(text);
        const std::string path = path_of(entry.uri);
        if (entry.id)
            if (const auto [found, fresh] = ids_.try_emplace(*entry.id, line.number); !fresh)
                throw UnreadableItem("its id '" + printable(*entry.id) + "' is also the id of line " +
                                     std::to_string(found->second));
        keys_.push_back(entry.id ? *entry.id : without_image_extension(path));
        const std::string columns = entry.columns.empty() ? std::string() : json_text(entry.columns);
        lines_.back().columns_hash = columns.empty() ? 0 : XXH3_64bits(columns.data(), columns.size());
    } catch (const UnreadableItem& problem) {
        keys_.push_back("line-" + std::to_string(line.number));
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

}  // namespace offramp
