#pragma once

#include <exception>
#include <string>

namespace offramp {

// The error of an Offramp program when the system has no thread or memory left:
// an Error (System) that names the limits to raise, in the place of std::system_error for want of a thread and
// std::bad_alloc. Any other exception stays what it is.
std::exception_ptr with_limits_named(std::exception_ptr error);

// The fix for a process that could not be started; `otherwise`: for causes other than scarcity.
std::string way_to_start(int problem, const std::string& otherwise = {});

// Starts so many threads and ends them. Errors: Error (System) where that is not possible. For what comes before a
// library that ends the process where it gets none.
void require_threads(unsigned count);

}  // namespace offramp
