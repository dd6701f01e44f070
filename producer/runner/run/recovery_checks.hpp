#pragma once

#include <cstdint>
#include <string>

#include "common/app/settings/run_config.hpp"
#include "common/wire/run_progress.hpp"
#include "producer/recovery/predecessor.hpp"
#include "producer/runner/checkpoint/run_checkpoint.hpp"
#include "producer/runner/sources/batch_source.hpp"

// The runner's own checks and records when it continues a dead producer's run (recover). The rest of a recovery is in
// producer/recovery/.
namespace offramp {

// Errors: ConfigError names every setting that determines outputs or slabs and differs from the kept one
// (common/app/settings/kept_settings), with both values; NoSuchRun when none were kept.
void require_kept_settings(const std::string& run_dir, const RunConfig& config);

// Errors: ConfigError when the source has other items, or other names of items, than the run began with.
void require_same_input(const RunProgress& progress, const BatchSource& source);

// `done_before`: items completed by earlier runs, from the checkpoint. Errors: BadInput when the progress record
// disagrees.
void require_same_checkpoint(const RunProgress& progress, std::uint64_t done_before, const std::string& output);

// Items of the run's share that its earlier producers read. `checkpoint`: null if the run keeps none.
std::uint64_t sourced_by(const Predecessor& predecessor, ItemRange share, const RunCheckpoint* checkpoint);

// Writes into the checkpoint the completions that the dead producer had accepted and not yet written, if they are
// known.
void note_completed_by(const Predecessor& predecessor, ItemRange share, RunCheckpoint& checkpoint);

}  // namespace offramp
