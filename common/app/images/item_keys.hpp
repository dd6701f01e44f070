#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/utf8.hpp"

namespace offramp {

// Gives every file of a list a stable key: its path without the image extension if that is unique in the list, else
// with the extension, else with -2, -3, ... appended. `names` are relative paths as the user wrote them ("." and ".."
// allowed). A key is well-formed UTF-8 with printable characters only (is_printable()). It is never empty or absolute,
// and no part of it is "." or "..", or begins with kReservedPrefix. It has at most kMaxKeyBytes bytes and each part at
// most 200, so that a sink can use it as a file name and add a suffix. A longer name is cut and ends in a hash of the
// whole. A key gets a number if, with an Offramp suffix (".png", ".logits.npy"), it would be a folder of another key.
//
// Ids keep anything that looks like an extension, because it is part of the id.
enum class NamesAre { Files, Ids };
std::vector<std::string> make_item_keys(const std::vector<std::string>& names, NamesAre names_are = NamesAre::Files);

// True for the extensions by which a folder's images are selected, in upper or lower case.
bool has_image_extension(std::string_view name);
std::string without_image_extension(std::string_view name);

}  // namespace offramp
