#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/app/settings/run_config.hpp"
#include "common/base/items.hpp"
#include "common/wire/run_progress.hpp"
#include "producer/egress/egress_run.hpp"
#include "producer/egress/output_batch.hpp"
#include "producer/egress/run_listeners.hpp"
#include "producer/recovery/predecessor.hpp"
#include "producer/runner/checkpoint/run_checkpoint.hpp"
#include "producer/runner/report/run_report.hpp"
#include "producer/runner/sources/batch_source.hpp"

namespace offramp {

// The record of a run's completed items, its own and earlier ones: the checkpoint, if it keeps one; the list of dropped
// items; the items read by earlier producers.
//
// Owns: checkpoint and list. Borrows: config, source. Thread: an ItemListener's functions from any; the rest from
// the run's. Blocks: on the file system. Errors: see RunCheckpoint; ConfigError for --resume without an output
// folder; the checks of the work that is continued. Errors of the checkpoint's thread go to `on_failure`.
class WorkRecord final : public ItemListener {
  public:
    struct Place {
        std::string run_dir;
        bool keeps_results = true;  // false: there is no earlier work to continue
        std::function<void(std::exception_ptr)> on_failure;
        std::vector<StitchedOutput> stitched{};
        std::optional<SampleForm> form{};  // of arrays that keep their shapes
    };
    WorkRecord(const RunConfig& config, const BatchSource& source, Place place);

    // Fills in the progress record, for a possible successor.
    void describe(RunProgress& progress) const;
    // In a recovered run: takes over the dead producer's work, after checking that it is the same work.
    void go_on(const RunProgress& progress, const Predecessor& predecessor);

    void before_publishing(const PublishedSlab& slab) override;
    void on_completed(const PublishedSlab& slab) override;
    void on_dropped(std::uint64_t batch, std::span<const RowInfo> rows, const std::string& group) override;

    // Items completed by earlier runs.
    std::uint64_t done_before() const { return checkpoint_ ? checkpoint_->items_before() : 0; }
    // Items that earlier producers of this run read.
    std::uint64_t sourced_before() const { return sourced_before_; }
    // The items that this run processes (share_of()).
    ItemRange share() const { return share_; }
    // Items that need no processing: they are outside this run's share, earlier runs completed them, or this run's
    // earlier producers published them or could not read them.
    ItemRanges done_earlier(const Predecessor& predecessor) const;
    // The number of those items that are in the share.
    std::uint64_t items_done_earlier(const Predecessor& predecessor) const;

    void close();
    // Call after close(), when this run has no work left.
    void end();

  private:
    void open_checkpoint(const Predecessor& predecessor);

    const RunConfig& config_;
    const BatchSource& source_;
    const ItemRange share_;
    const Place place_;
    std::unique_ptr<RunCheckpoint> checkpoint_;  // null: this run keeps no checkpoint
    std::uint64_t sourced_before_ = 0;
    DroppedLog dropped_;
};

// The runner's own checks and records when it continues a dead producer's run (recover). The rest of a recovery is in
// producer/recovery/.
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
