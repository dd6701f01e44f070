#pragma once

namespace offramp::abi {

// The library's own log goes to the file that OFFRAMP_LOG names, or nowhere: a program's terminal is its own. Once a
// process.
void quiet_log();

}  // namespace offramp::abi
