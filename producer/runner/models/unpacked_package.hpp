#pragma once

#include <string>
#include <string_view>

namespace offramp {

// The folder into which LibTorch unpacked a package, if this line of /proc/self/maps is of code in it: "/tmp/SckkvS" of
// "... 08:01 42   /tmp/SckkvS/net/data/aotinductor/model/c7.wrapper.so". Otherwise empty.
std::string unpacked_folder(std::string_view maps_line);

}  // namespace offramp
