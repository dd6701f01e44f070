#pragma once

#include <exception>
#include <string>

namespace offramp {

// Fixes for a lack of disk space, memory, threads or processes. Thread: any.

// The fix for a file that could not be written for lack of space: a full file system (ENOSPC), an exhausted quota
// (EDQUOT), or a limit on the size of files (EFBIG; SIGXFSZ is ignored). For any other errno, `otherwise`. One sentence
// without its full stop.
std::string way_to_write(int errno_value, const std::string& otherwise);

// Makes an error that names the limits to raise when the system has no thread or memory left:
// replaces std::system_error for a missing thread, and std::bad_alloc, by an Error (System). Returns any other
// exception unchanged.
std::exception_ptr with_limits_named(std::exception_ptr error);

// The fix for a process that could not be started. `otherwise`: the fix for causes other than a limit.
std::string way_to_start(int problem, const std::string& otherwise = {});

// Starts `count` threads and ends them. Call it before a library that aborts the process if it cannot start a thread.
// Errors: Error (System) if the threads cannot be started.
void require_threads(unsigned count);

}  // namespace offramp
