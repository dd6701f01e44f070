#pragma once

#include <memory>
#include <optional>
#include <string>

#include "common/app/program/output_share.hpp"
#include "common/app/settings/run_config.hpp"
#include "consumer/session/slab_processor.hpp"
#include "consumer/sinks/files/held_output.hpp"

namespace offramp {

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
