#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <offramp_processor.h>
#include "common/app/settings/run_config.hpp"
#include "consumer/processors/processor.hpp"

namespace offramp {

// How the program makes its processor; tests pass one that fails.
struct ProcessorMaking {
    std::function<std::unique_ptr<Processor>(const RunConfig&)> make;
    std::span<const std::string_view> besides{};  // names that `make` knows and the table does not
    // the processor to announce to the run instead, which lets in none but its own; empty: the one in the settings
    std::string stands_for{};
    const offramp_processor* python = nullptr;  // in an interpreter: what its language's processors are made from
};

// The built-in processors, and custom ones that ProcessorSpec names.
ProcessorMaking own_processors(const offramp_processor* python);

// offramp-consumer from its command line to its exit code: serves a run, or does what a command or --list asks for
// (finish, retry FILE; of the launcher: prepare, join-shards and others). With `serve NONCE` it serves that run and no
// other. Settings that it was not given of a run that it serves it takes from there
// (common/app/settings/kept_settings); a given setting that differs from the run's is refused.
//
// Borrows: all of it. Thread: main's. Blocks: for the length of the run. Errors: none; they are logged and set the exit
// code.
int run_consumer(int argc, const char* const* argv, const ProcessorMaking& making) noexcept;

}  // namespace offramp
