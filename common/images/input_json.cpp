#include "common/images/input_json.hpp"

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>

#include "common/images/unreadable_item.hpp"

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
        parsed = json::parse(text);
    } catch (const json::parse_error& problem) {
        throw UnreadableItem("no JSON: it breaks at byte " + std::to_string(problem.byte));
    } catch (const json::out_of_range& problem) {
        throw UnreadableItem("a number that no double holds: '" + number_in(problem.what()) + "'");
    } catch (const json::exception& problem) {
        throw UnreadableItem(std::string("no JSON: ") + problem.what());
    }
    if (!parsed.is_object()) throw UnreadableItem(std::string("no JSON object, but ") + parsed.type_name());
    return parsed;
}

}  // namespace offramp
