#pragma once

#include <string>
#include <string_view>

#include "common/base/held_folder.hpp"

namespace offramp {

// KEY+SUFFIX, the name of one sample's result. A key may hold '/': it is then a path. A last part that would be longer
// than a file's name can be (255 bytes) is cut in front of the suffix, and ends in a hash of what it was.
std::string sample_name(std::string_view key, std::string_view suffix);

// The path FOLDER/NAME of it.
// Keys come from the slab's header, whose bounds were checked but not its text. Errors: Error with BadInput,
// with the key, when it is empty or absolute, has an empty, "." or ".." part, a NUL, or a part that begins
// with kReservedPrefix.
std::string sample_path(const std::string& folder, std::string_view key, std::string_view suffix);

// The name of a model's output as a part of a file name. Errors: Error with BadInput when it is empty or has
// a '/' or a control character.
std::string_view checked_output_name(std::string_view name);

// The text with tab, newline, backslash and other control characters written as \t, \n, \\ and \xNN, for
// messages and for formats of one line a record. Nothing else is changed.
std::string escaped(std::string_view text);

}  // namespace offramp
