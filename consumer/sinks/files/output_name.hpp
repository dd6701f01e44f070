#pragma once

#include <string>
#include <string_view>

#include "common/base/held_folder.hpp"

namespace offramp {

// KEY+SUFFIX, the file name of one sample's result. If the key contains '/', the result is a path. A last part that
// would exceed the limit for file names (255 bytes) is cut before the suffix, and gets a hash of the full name.
std::string sample_name(std::string_view key, std::string_view suffix);

// The path FOLDER/NAME of a sample's result. Keys come from the slab's header, whose bounds were checked but not its
// text. Errors: Error with BadInput, with the key, if it is empty or absolute, has an empty, "." or ".." part, a NUL,
// or a part that begins with kReservedPrefix.
std::string sample_path(const std::string& folder, std::string_view key, std::string_view suffix);

// The name of a model's output, checked for use in a file name. Errors: Error with BadInput when it is empty or has a
// '/' or a control character.
std::string_view checked_output_name(std::string_view name);

// Throws ConfigError for a file of another program in the place of a run's output. `what`: "results go".
[[noreturn]] void fail_file_exists(const std::string& file, const std::string& what);

// The text with control characters and backslash escaped as \t, \n, \\ and \xNN, for messages and for formats with one
// record a line. All other characters stay.
std::string escaped(std::string_view text);

}  // namespace offramp
