#pragma once

#include <spdlog/spdlog.h>

#include <string>
#include <string_view>

namespace offramp {

enum class LogFormat { Text, Json };

// Sets up spdlog's default logger for a program: to standard error, and also to `file` if not empty. A line has time,
// level, program and pid; in JSON, each line is one object with the same fields. Call it once, from main, before any
// thread starts. Levels: trace, debug, info, warning, error, off. Errors: ConfigError for an unknown level.
void start_logging(std::string_view program, std::string_view level, LogFormat format, const std::string& file);

LogFormat parse_log_format(std::string_view text);

}  // namespace offramp
