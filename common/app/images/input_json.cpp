#include "common/app/images/input_json.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>

#include "common/app/images/unreadable_item.hpp"
#include "common/base/utf8.hpp"
#include "common/json/json_text.hpp"

namespace offramp {
namespace {

using nlohmann::json;

constexpr std::size_t kMostLevels = 64;
constexpr std::size_t kShownDigits = 40;
constexpr std::size_t kShownNameBytes = 60;

// Not the parser with a callback to ask: it looks through the whole of an array behind each object in it. `on_member`
// gets the name of each member of the outermost object, as written in its quotes, if the text is JSON. Returns whether
// it is of at most kMostLevels.
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

// The repeated name of an object that has fewer members than its text.
std::string repeated_name(std::string_view text) {
    std::set<std::string> names;
    std::string repeated;
    look_through(text, [&](std::string_view quoted) {
        auto name = parse_json(quoted).get<std::string>();
        if (!names.insert(name).second && repeated.empty()) repeated = std::move(name);
    });
    return printable(utf8_prefix(repeated, kShownNameBytes));
}

// Explains common syntax that JSON does not have. `at`: the byte where the parser gave up, from 1.
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
