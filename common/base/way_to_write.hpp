#pragma once

#include <string>

namespace offramp {

// The fix for a file that could not be written for lack of space, one for each cause: a full file system
// (ENOSPC), a quota that is used up (EDQUOT), a limit on the size of files (EFBIG: SIGXFSZ is ignored). For any other
// errno, `otherwise`. In one sentence without its full stop.
std::string way_to_write(int errno_value, const std::string& otherwise);

}  // namespace offramp
