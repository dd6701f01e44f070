#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/utf8.hpp"

namespace offramp {

// Gives every file of a list its stable key: its path without the image extension where that is unique in the
// list, else with it, else with -2, -3, ... behind it. `names` are relative paths as the user wrote them ("."
// and ".." allowed). A key is never empty or absolute, holds no "." or ".." part, none that begins with
// kReservedPrefix, only printable characters (is_printable()) and only well-formed UTF-8; it is at most kMaxKeyBytes
// bytes and each part at most 200, so that a sink can use it as a file's name and add a suffix. What is longer is cut
// and ends in a hash of the whole. No key with an Offramp suffix
// (".png", ".logits.npy") is a folder of another key: that one gets a number.
//
// Names that are ids keep what looks like an extension, as it is part of the id.
enum class NamesAre { Files, Ids };
std::vector<std::string> make_item_keys(const std::vector<std::string>& names, NamesAre names_are = NamesAre::Files);

// True for the extensions that are taken for images when a folder is listed, in any case of letters.
bool has_image_extension(std::string_view name);
std::string without_image_extension(std::string_view name);

}  // namespace offramp
