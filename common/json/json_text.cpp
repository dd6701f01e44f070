#include "common/json/json_text.hpp"

namespace offramp {
namespace {

template <class Json>
std::string text_of(const Json& value, int indent) {
    return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

nlohmann::json parse_json(std::string_view text) { return nlohmann::json::parse(text); }

nlohmann::json parse_json(std::string_view text, const nlohmann::json::parser_callback_t& on_event) {
    return nlohmann::json::parse(text, on_event);
}

nlohmann::json parse_json_or_discard(std::string_view text) { return nlohmann::json::parse(text, nullptr, false); }

std::string json_text(const nlohmann::json& value, int indent) { return text_of(value, indent); }
std::string json_text(const nlohmann::ordered_json& value, int indent) { return text_of(value, indent); }

}  // namespace offramp
