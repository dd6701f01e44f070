#include "common/images/input_json.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "common/images/unreadable_item.hpp"
#include "common/json/json_text.hpp"

namespace offramp {
namespace {

using nlohmann::json;

constexpr std::size_t kMostLevels = 64;
constexpr std::size_t kShownDigits = 40;

// Ahead of the parser: with a callback to ask, it looks through the whole of an array behind each object in it.
bool too_deep(std::string_view text) {
    std::size_t levels = 0;
    bool in_string = false;
    for (std::size_t at = 0; at < text.size(); ++at) {
        const char c = text[at];
        if (c == '"') in_string = !in_string;
        if (in_string && c == '\\') ++at;
        if (in_string) continue;
        if ((c == '[' || c == '{') && ++levels > kMostLevels) return true;
        if ((c == ']' || c == '}') && levels > 0) --levels;
    }
    return false;
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

// Whole numbers that no integer of 64 bits holds become texts of their digits: the parser would round them to doubles.
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

// The parser's only complaint of this kind: "[...] number overflow parsing '1e999'".
std::string number_in(std::string_view complaint) {
    complaint.remove_prefix(std::min(complaint.find('\''), complaint.size() - 1) + 1);
    const std::string_view digits = complaint.substr(0, complaint.find('\''));
    return std::string(digits.substr(0, kShownDigits)) + (digits.size() > kShownDigits ? "..." : "");
}

}  // namespace

json parse_input_object(std::string_view text) {
    if (too_deep(text)) throw UnreadableItem("nested deeper than " + std::to_string(kMostLevels) + " levels");
    json parsed;
    try {
        parsed = parse_json(with_large_numbers_as_texts(text));
    } catch (const json::parse_error& problem) {
        throw UnreadableItem("not JSON: it breaks at byte " + std::to_string(problem.byte));
    } catch (const json::out_of_range& problem) {
        throw UnreadableItem("a number that no double holds: '" + number_in(problem.what()) + "'");
    } catch (const json::exception& problem) {
        throw UnreadableItem(std::string("not JSON: ") + problem.what());
    }
    if (!parsed.is_object()) throw UnreadableItem(std::string("not a JSON object, but ") + parsed.type_name());
    return parsed;
}

}  // namespace offramp
