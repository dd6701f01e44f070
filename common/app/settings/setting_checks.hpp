#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace offramp {

// The accepted form of a plug-in's name, for errors.
inline constexpr const char* kPluginName = "lower-case letters, digits and '-'; --list prints the known names";
// The maximum of a setting without a limit.
inline constexpr std::int64_t kAnyNumber = std::numeric_limits<std::int64_t>::max();

// Checks for the settings' table: each returns the problem of a text ("is not a run id"), or nothing if it is valid.
std::optional<std::string> check_run_id(const std::string& text);
std::optional<std::string> check_max_errors(const std::string& text);
std::optional<std::string> check_by_length(const std::string& text);
std::optional<std::string> check_overlap(const std::string& text);
std::optional<std::string> check_shard(const std::string& text);
std::optional<std::string> check_device(const std::string& text);
std::optional<std::string> check_plugin_name(const std::string& text);
std::optional<std::string> check_plugin_names(const std::string& text);
std::optional<std::string> check_groups(const std::string& text);
std::optional<std::string> check_model(const std::string& text);
std::optional<std::string> check_shapes(const std::string& text);
std::optional<std::string> check_column_name(const std::string& text);
std::optional<std::string> check_names(const std::string& text);
std::optional<std::string> check_url(const std::string& text);
std::optional<std::string> check_user(const std::string& text);
std::optional<std::string> check_table(const std::string& text);
std::optional<std::string> check_not_empty(const std::string& text);

// The parts of `text` between commas; one empty part if it is empty.
std::vector<std::string> split_at_commas(const std::string& text);

// The known word that is nearest to a mistyped word (fewest edits); nothing if no word is near enough.
std::optional<std::string> nearest_word(std::string_view typed, std::span<const std::string> known);

}  // namespace offramp
