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
#include "consumer/worker/uploads.hpp"

namespace offramp {

// How the program makes its processor; tests pass a processor that fails.
struct ProcessorMaking {
    std::function<std::unique_ptr<Processor>(const RunConfig&)> make;
    std::span<const std::string_view> besides{};  // further names that `make` knows, beyond the table
    // the processor to announce to a run that admits only its own processor; empty: the one in the settings
    std::string stands_for{};
    const offramp_processor* python = nullptr;  // in an interpreter: makes processors in its language
};

// The built-in processors, and the custom ones that ProcessorSpec names.
ProcessorMaking own_processors(const offramp_processor* python);

// Runs offramp-consumer from its command line to its exit code. It serves a run, or executes --list or a command
// (finish, retry FILE; from the launcher: prepare, join-shards and others). `serve NONCE` serves only that run.
// Settings that the command line omits come from the run (common/app/settings/kept_settings). The program refuses a
// given setting that differs from the run's.
//
// Borrows: all arguments. Thread: main's. Blocks: for the length of the run. Errors: none; it logs them and sets the
// exit code.
int run_consumer(int argc, const char* const* argv, const ProcessorMaking& making) noexcept;

// Holds the folders of a consumer's results for its lifetime, with a share in the output's lock. A slab counts as done
// only while every folder's name still leads to the held folder.
//
// Owns the folders, the share, and the uploads of a run with objects. Thread: one. Blocks: on the file system. Errors:
// those of OutputShare and HeldOutput.
class OutputOfRun {
  public:
    // Holds nothing if there is no output. `run_id`: the run whose lock it shares, or empty. With a launcher, the
    // consumer does not create the output folder: a missing folder is not its run's.
    OutputOfRun(const RunConfig& config, const std::string& run_id);

    // The settings for making processors: with a private folder for the files of samples, if these become objects.
    const RunConfig& settings() const { return settings_; }
    // HeldOutput::share_notes().
    void share_notes(const std::string& file) { held_.share_notes(file); }
    // Runs `processor` on a slab, between two checks of the folders. Borrows it.
    SlabProcessor& guard(SlabProcessor& processor, const RunConfig& config);

  private:
    RunConfig settings_;
    std::unique_ptr<Uploads> uploads_;
    HeldOutput held_;
    std::optional<OutputShare> share_;
    std::unique_ptr<SlabProcessor> guarded_;
};

// The share of a program that only tidies the output, if the output exists. Errors: those of OutputShare.
std::optional<OutputShare> share_in_output(const RunConfig& config);

}  // namespace offramp
