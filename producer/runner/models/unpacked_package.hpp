#pragma once

#include <string>
#include <string_view>

namespace offramp {

// The folder that LibTorch made to unpack a package into, when this line of /proc/self/maps is of code in it:
// "/tmp/SckkvS" of "... 08:01 42   /tmp/SckkvS/net/data/aotinductor/model/c7.wrapper.so". Empty: the line is of
// something else.
std::string unpacked_folder(std::string_view maps_line);

}  // namespace offramp
