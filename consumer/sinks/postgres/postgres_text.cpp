#include "consumer/sinks/postgres/postgres_text.hpp"

#include <algorithm>

#include "common/base/log.hpp"
#include "common/base/utf8.hpp"

namespace offramp {

std::string postgres_text(std::string_view text) {
    if (is_utf8(text) && text.find('\0') == std::string_view::npos && text.find("\\x") == std::string_view::npos)
        return std::string(text);
    std::string held;
    while (!text.empty()) {
        const std::size_t bytes = text.front() == '\0' || text.front() == '\\' ? 0 : utf8_character_bytes(text);
        held += bytes > 0 ? std::string(text.substr(0, bytes))
                          : fmt::format("\\x{:02x}", static_cast<unsigned char>(text.front()));
        text.remove_prefix(std::max<std::size_t>(bytes, 1));
    }
    return held;
}

std::string postgres_json(std::string_view json) {
    constexpr std::string_view kNul = "\\u0000";
    if (json.find(kNul) == std::string_view::npos) return std::string(json);
    std::string held;
    for (std::size_t at = 0; at < json.size();) {
        if (json.substr(at).starts_with(kNul)) {
            held += "\\\\x00";
            at += kNul.size();
            continue;
        }
        const std::size_t characters = json[at] == '\\' ? 2 : 1;  // what is escaped begins no other escape
        held += json.substr(at, characters);
        at += characters;
    }
    return held;
}

}  // namespace offramp
