#pragma once

#include <cstdint>
#include <exception>
#include <string>

namespace offramp {

// The fixes that a library's error names, which differ by user: a caller of the library has options, a user of a
// program's command line has flags, which the library does not know.
enum class Remedy : std::uint8_t {
    RunOnCpu,
    SmallerBatches,      // of less memory on the device
    SmallerHostBuffers,  // of less page-locked memory on the host
    PageLocking,         // the host's memory is not page-locked
    SweepMemory,         // of a run that is dead
    OpenToAnotherUser,   // the run is
    OneProducer,         // the run directory has another one
    BeginRun,            // there is none to recover
    RunAgain,
    AnotherLogFile,  // the log cannot be written there
    WritableOutput,  // results cannot be
    // These stand behind another remedy, and begin with a small letter.
    FewerSlabs,
    LessMemory,  // the system gives no more
    AnotherSpillFolder,
    AnotherRunDirectory,
    AnotherOutput,  // a file beside the results is damaged
    Count           // their number, not a remedy
};

using RemedyText = const char* (*)(Remedy);

// A sentence without its full stop, in the words for this process's user: the library's, unless a program has set
// others. Thread: any. Blocks: never. Errors: none.
std::string remedy(Remedy which);

// By a program, before it does anything else: its users know remedies by these words.
void put_remedies(RemedyText text_of) noexcept;

// The library's own words.
const char* library_remedy(Remedy which) noexcept;

// The fix for a file that could not be written for lack of space, one for each cause: a full file system
// (ENOSPC), a quota that is used up (EDQUOT), a limit on the size of files (EFBIG: SIGXFSZ is ignored). For any other
// errno, `otherwise`. In one sentence without its full stop.
std::string way_to_write(int errno_value, const std::string& otherwise);

// The error of an Offramp program when the system has no thread or memory left:
// an Error (System) that names the limits to raise, in the place of std::system_error for want of a thread and
// std::bad_alloc. Any other exception stays what it is.
std::exception_ptr with_limits_named(std::exception_ptr error);

// The fix for a process that could not be started; `otherwise`: for causes other than scarcity.
std::string way_to_start(int problem, const std::string& otherwise = {});

// Starts so many threads and ends them. Errors: Error (System) where that is not possible. For what comes before a
// library that ends the process where it gets none.
void require_threads(unsigned count);

// The fix for a file of weights by torch.save: a command that makes a .safetensors of it, which a built-in model takes.
// `file`: its path, as the user gave it.
std::string command_to_convert(const std::string& file);

}  // namespace offramp
