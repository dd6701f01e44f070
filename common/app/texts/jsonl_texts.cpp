#include "common/app/texts/jsonl_texts.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "common/app/images/jsonl_pictures.hpp"
#include "common/app/images/unreadable_item.hpp"
#include "common/base/error.hpp"
#include "common/base/utf8.hpp"

namespace offramp {
namespace {

constexpr std::size_t kMostLineBytes = std::size_t{64} << 20;
constexpr const char* kLinesForm = "Give a file with one JSON object per line: {\"id\": \"7\", \"text\": \"...\"}";

[[noreturn]] void refuse_lines(const std::string& input, const std::string& why, ErrorKind kind,
                               const std::string& remedy = kLinesForm) {
    throw ConfigError("--input '" + printable(input) + "': " + why, remedy, kind);
}

RegularFile open_lines(const std::string& input) {
    if (input.empty())
        refuse_lines(input, "the source jsonl-text needs an input and none is given", ErrorKind::NoInput);
    try {
        return RegularFile(input);
    } catch (const Error& problem) {
        refuse_lines(input, problem.what(), problem.kind());
    }
}

bool blank(std::string_view text) { return text.find_first_not_of(" \t\r") == std::string_view::npos; }

// Checks the file's first line. Errors: Error (BadInput) if another kind of file begins like this.
void require_lines_of_json(std::string_view line) {
    if (line.starts_with("PAR1"))
        throw Error(ErrorKind::BadInput, "it begins as a Parquet file does", "For Parquet give --source parquet-text");
    if (is_utf16(line)) throw Error(ErrorKind::BadInput, "it is UTF-16, not UTF-8", kFromUtf16);
}

// Errors: Error (BadInput), with the text of UnreadableItem.
nlohmann::json object_of(std::string_view line) {
    if (!is_utf8(line)) {
        std::size_t at = 0;
        while (const std::size_t bytes = utf8_character_bytes(line.substr(at))) at += bytes;
        throw Error(ErrorKind::BadInput, "it is not UTF-8 from byte " + std::to_string(at + 1) + " on",
                    "Write the file in UTF-8. If it is Latin-1: iconv -f LATIN1 -t UTF-8 FILE > NEW_FILE");
    }
    try {
        return parse_input_object(line);
    } catch (const UnreadableItem& problem) {
        throw Error(ErrorKind::BadInput, problem.what(), kLinesForm);
    }
}

}  // namespace

JsonlTexts::JsonlTexts(const InputSettings& config, const StillWanted& still_wanted)
    : ListedTexts(config), file_(open_lines(config.input)) {
    read_lines(still_wanted);
    if (lines_.empty()) refuse_lines(input(), "it has no lines", ErrorKind::NoInput);
}

void JsonlTexts::read_lines(const StillWanted& still_wanted) {
    constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
    TextListing listing(chosen(), "line");
    std::vector<char> block(std::size_t{1} << 20);
    std::string text;
    Line line{.number = 1, .offset = 0, .bytes = 0};
    const auto end_line = [&](std::uint64_t with_end) {
        std::string_view content = text;
        Line taken = line;
        if (line.number == 1 && content.starts_with(kByteOrderMark)) {  // as Windows' editors write it
            content.remove_prefix(kByteOrderMark.size());
            taken.offset += kByteOrderMark.size();
            taken.bytes -= kByteOrderMark.size();
        }
        if (line.number == 1) require_lines_of_json(content);
        if (!blank(content)) {
            listing.add(line.number, object_of(content));
            lines_.push_back(taken);
        }
        line = {.number = line.number + 1, .offset = line.offset + line.bytes + with_end, .bytes = 0};
        text.clear();
    };
    try {
        std::size_t got = 0;
        for (std::uint64_t at = 0; (got = file_.read_at(at, std::as_writable_bytes(std::span(block)))) > 0; at += got) {
            if (still_wanted) still_wanted();
            for (std::string_view left(block.data(), got); !left.empty();) {
                const std::size_t end = std::min(left.find('\n'), left.size());
                text += left.substr(0, end);
                line.bytes += end;
                if (text.size() > kMostLineBytes)
                    throw Error(ErrorKind::BadInput, "it is longer than 64 MiB",
                                "Shorten the text, and check that the file has one JSON object per line");
                if (end < left.size()) end_line(1);
                left.remove_prefix(std::min(end + 1, left.size()));
            }
        }
        if (!text.empty()) end_line(0);
    } catch (const ConfigError&) {
        throw;
    } catch (const Error& problem) {
        if (problem.kind() != ErrorKind::BadInput) refuse_lines(input(), problem.what(), problem.kind());
        refuse_lines(input(), "line " + std::to_string(line.number) + ": " + problem.what(), ErrorKind::BadInput, "");
    }
    if (lines_.empty()) return;
    try {
        listing.end();
    } catch (const Error& problem) {
        refuse_lines(input(), problem.what(), problem.kind(), "");
    }
    keep(std::move(listing));
}

std::string JsonlTexts::description() const {
    return std::to_string(lines_.size()) + " lines of " + printable(input());
}

std::string JsonlTexts::origin(std::uint64_t number) const {
    return printable(input()) + ":" + std::to_string(lines_[number].number);
}

TextRow JsonlTexts::row(std::uint64_t number) const {
    const Line& line = lines_[number];
    std::string text(line.bytes, '\0');
    try {
        if (file_.read_at(line.offset, std::as_writable_bytes(std::span(text))) < text.size())
            throw UnreadableItem("the file became shorter");
        TextRow row = chosen().row_of(object_of(text));
        if (RowHashes::of(row) != listed(number)) throw UnreadableItem(kRowWasChanged);
        return row;
    } catch (const Error& problem) {
        throw UnreadableItem(std::string("the line was changed: ") + problem.what());
    }
}

BesideText JsonlTexts::beside(std::uint64_t number) const {
    TextRow taken = row(number);
    return {.id = std::move(taken.id), .columns = std::move(taken.columns)};
}

}  // namespace offramp
