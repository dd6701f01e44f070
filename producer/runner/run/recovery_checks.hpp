#pragma once

#include <cstdint>
#include <string>

#include "common/settings/run_config.hpp"
#include "common/wire/run_progress.hpp"
#include "producer/recovery/predecessor.hpp"
#include "producer/runner/checkpoint/run_checkpoint.hpp"
#include "producer/runner/sources/batch_source.hpp"

// What this program checks and keeps besides, where it goes on with a dead producer's run (recover). The rest of that
// is producer/recovery/.
namespace offramp {

// Errors: ConfigError names every setting that outputs or slabs follow from and that differs from those that were kept
// (common/settings/kept_settings), with both values; NoSuchRun when none were kept.
void require_kept_settings(const std::string& run_dir, const RunConfig& config);

// Errors: ConfigError when the source has other items, or others' names, than the run began with.
void require_same_input(const RunProgress& progress, const BatchSource& source);

// `done_before`: items that the checkpoint says earlier runs had done. Errors: BadInput when the progress record says
// otherwise.
void require_same_checkpoint(const RunProgress& progress, std::uint64_t done_before, const std::string& output);

// Items of the run's share that its earlier producers read for it. `checkpoint`: null where the run keeps none.
std::uint64_t sourced_by(const Predecessor& predecessor, ItemRange share, const RunCheckpoint* checkpoint);

// Writes into the checkpoint what the dead producer had accepted and not written there yet, where that is known.
void note_completed_by(const Predecessor& predecessor, ItemRange share, RunCheckpoint& checkpoint);

}  // namespace offramp
