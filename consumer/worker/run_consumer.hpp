#pragma once

#include <offramp_processor.h>

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "common/app/program/output_share.hpp"
#include "common/app/settings/run_config.hpp"
#include "consumer/processors/processor.hpp"
#include "consumer/session/slab_processor.hpp"
#include "consumer/sinks/files/held_output.hpp"

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

// Where a consumer's results go, held for as long as it lives, with its share in the output's lock: no slab counts as
// done once a name leads elsewhere.
//
// Owns the folders and the share. Thread: one. Blocks: on the file system. Errors: those of OutputShare and HeldOutput.
class OutputOfRun {
  public:
    // Without an output nothing is held. `run_id`: empty, or that of the run in whose lock it has a share. A consumer
    // that a launcher started makes no output folder: one that is gone is not its run's.
    OutputOfRun(const RunConfig& config, const std::string& run_id);

    // Runs `processor` on a slab, between two checks of the folders. Borrows it.
    SlabProcessor& guard(SlabProcessor& processor, const RunConfig& config);

  private:
    HeldOutput held_;
    std::optional<OutputShare> share_;
    std::unique_ptr<SlabProcessor> guarded_;
};

// The share of a program that only puts the output in order, where that is there. Errors: those of OutputShare.
std::optional<OutputShare> share_in_output(const RunConfig& config);

}  // namespace offramp
