#pragma once

#include <cstdint>
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

}  // namespace offramp
