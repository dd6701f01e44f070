#pragma once

namespace offramp::abi {

// Sends the library's log to the file that OFFRAMP_LOG names, or nowhere: the terminal belongs to the program. Takes
// effect once per process.
void quiet_log();

}  // namespace offramp::abi
