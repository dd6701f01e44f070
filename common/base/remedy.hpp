#pragma once

#include <cstdint>
#include <string>

namespace offramp {

// Fixes for errors. Their texts differ by user: a caller of the library has options, and a user of a command line has
// flags, which the library does not know.
enum class Remedy : std::uint8_t {
    RunOnCpu,
    SmallerBatches,      // use less memory on the device
    SmallerHostBuffers,  // use less page-locked memory on the host
    PageLocking,         // the host's memory cannot be page-locked
    SweepMemory,         // of a dead run
    OpenToAnotherUser,   // the run belongs to another user
    OneProducer,         // the run directory has another producer
    BeginRun,            // there is no run to recover
    RunAgain,
    AnotherLogFile,  // the log file cannot be written
    WritableOutput,  // results cannot be written
    // The remedies below follow another remedy, and begin with a small letter.
    FewerSlabs,
    LessMemory,  // the system is out of memory
    AnotherSpillFolder,
    AnotherRunDirectory,
    AnotherOutput,  // a file beside the results is damaged
    Count           // the number of remedies, not a remedy
};

using RemedyText = const char* (*)(Remedy);

// A sentence without its full stop, in the terms of this process's user: the library's, unless a program has set
// others. Thread: any. Blocks: never. Errors: none.
std::string remedy(Remedy which);

// Sets the texts for a program's users. Call it before anything else.
void put_remedies(RemedyText text_of) noexcept;

// The library's own texts.
const char* library_remedy(Remedy which) noexcept;

// The fix for a weights file by torch.save: a command that converts it to a .safetensors file for a built-in model.
// `file`: the path as the user gave it.
std::string command_to_convert(const std::string& file);

}  // namespace offramp
