#pragma once

#include <string>

#include "common/base/error.hpp"

namespace offramp {

// The error of a file or folder that cannot be written: names the attempt (with the path), errno, and the fix.
SystemError write_error(const std::string& tried, int errno_value);

}  // namespace offramp
