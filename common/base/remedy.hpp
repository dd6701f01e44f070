#pragma once

#include <cstdint>
#include <string>

namespace offramp {

// What can be done where a library's error has to say it, and what its user has for that differs: who calls the library
// has options of its own, who types a program's command has flags, of which a library knows nothing.
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
    AnotherOutput,  // what lies with the results is damaged
    Count           // how many there are; none itself
};

using RemedyText = const char* (*)(Remedy);

// A sentence without its stop, in the words of this process's user: the library's own, unless a program has said
// otherwise. Thread: any. Blocks: never. Errors: none.
std::string remedy(Remedy which);

// By a program, before it does anything else: its users know remedies by these words.
void put_remedies(RemedyText text_of) noexcept;

// The library's own words.
const char* library_remedy(Remedy which) noexcept;

}  // namespace offramp
