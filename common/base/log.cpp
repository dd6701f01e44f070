#include "common/base/log.hpp"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>

#include <algorithm>
#include <memory>
#include <string_view>
#include <vector>

#include "common/base/error.hpp"
#include "common/base/remedy.hpp"
#include "common/base/utf8.hpp"

namespace offramp {
namespace {

// Writes the message as the contents of a JSON string: escapes quotes, backslashes and control characters. Bytes that
// are not UTF-8 (file names may contain any) become U+FFFD, so that every line is valid JSON.
class JsonMessageFlag final : public spdlog::custom_flag_formatter {
  public:
    void format(const spdlog::details::log_msg& message, const std::tm&, spdlog::memory_buf_t& out) override {
        constexpr char kHex[] = "0123456789abcdef";
        constexpr std::string_view kReplacement = "\\ufffd";
        std::string_view rest(message.payload.data(), message.payload.size());
        while (!rest.empty()) {
            const std::size_t bytes = utf8_character_bytes(rest);
            const auto byte = static_cast<unsigned char>(rest.front());
            if (bytes == 0) {
                out.append(kReplacement.begin(), kReplacement.end());
            } else if (byte == '"' || byte == '\\') {
                out.push_back('\\');
                out.push_back(rest.front());
            } else if (byte < 0x20) {
                const char escaped[] = {'\\', 'u', '0', '0', kHex[byte >> 4], kHex[byte & 15]};
                out.append(escaped, escaped + sizeof escaped);
            } else {
                out.append(rest.begin(), rest.begin() + bytes);
            }
            rest.remove_prefix(bytes == 0 ? 1 : bytes);
        }
    }
    std::unique_ptr<custom_flag_formatter> clone() const override { return std::make_unique<JsonMessageFlag>(); }
};

// Writes the message safely for a terminal: escapes everything that is not text, and keeps line breaks.
class TextMessageFlag final : public spdlog::custom_flag_formatter {
  public:
    void format(const spdlog::details::log_msg& message, const std::tm&, spdlog::memory_buf_t& out) override {
        constexpr char kHex[] = "0123456789abcdef";
        std::string_view rest(message.payload.data(), message.payload.size());
        while (!rest.empty()) {
            const std::size_t bytes = std::max<std::size_t>(utf8_character_bytes(rest), 1);
            const std::string_view character = rest.substr(0, bytes);
            const bool text =
                (utf8_character_bytes(rest) > 0 && is_printable(character)) || character == "\n" || character == "\t";
            for (const char c : character) {
                const auto byte = static_cast<unsigned char>(c);
                const char escaped[] = {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
                text ? out.push_back(c) : out.append(escaped, escaped + sizeof escaped);
            }
            rest.remove_prefix(bytes);
        }
    }
    std::unique_ptr<custom_flag_formatter> clone() const override { return std::make_unique<TextMessageFlag>(); }
};

}  // namespace

LogFormat parse_log_format(std::string_view text) {
    if (text == "text") return LogFormat::Text;
    if (text == "json") return LogFormat::Json;
    throw ConfigError("log format '" + std::string(text) + "' is unknown", "Known: text, json");
}

void start_logging(std::string_view program, std::string_view level, LogFormat format, const std::string& file) {
    const std::string level_name = level == "warn" ? "warning" : level == "err" ? "error" : std::string(level);
    const auto parsed = spdlog::level::from_str(level_name);
    if (parsed == spdlog::level::off && level_name != "off")
        throw ConfigError("log level '" + std::string(level) + "' is unknown",
                          "Known: trace, debug, info, warning, error, off");

    std::vector<spdlog::sink_ptr> sinks{std::make_shared<spdlog::sinks::stderr_color_sink_mt>()};
    if (!file.empty()) {
        try {
            sinks.push_back(std::make_shared<spdlog::sinks::basic_file_sink_mt>(file));
        } catch (const spdlog::spdlog_ex& problem) {
            throw ConfigError("log file '" + file + "' cannot be written: " + problem.what(),
                              remedy(Remedy::AnotherLogFile), ErrorKind::CannotWrite);
        }
    }
    auto logger = std::make_shared<spdlog::logger>(std::string(program), sinks.begin(), sinks.end());
    auto formatter = std::make_unique<spdlog::pattern_formatter>();
    if (format == LogFormat::Json) {
        formatter->add_flag<JsonMessageFlag>('*').set_pattern(
            R"({"time":"%Y-%m-%dT%H:%M:%S.%f%z","level":"%l","program":"%n","pid":%P,"message":"%*"})");
    } else {
        formatter->add_flag<TextMessageFlag>('*').set_pattern("%H:%M:%S.%e %^%-7l%$ %n[%P] %*");
    }
    logger->set_formatter(std::move(formatter));
    logger->set_level(parsed);
    logger->flush_on(spdlog::level::info);
    spdlog::set_default_logger(std::move(logger));
}

}  // namespace offramp
