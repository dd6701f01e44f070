#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/base/item_ranges.hpp"
#include "common/settings/run_config.hpp"
#include "common/wire/run_progress.hpp"
#include "producer/egress/egress_run.hpp"
#include "producer/egress/row_info.hpp"
#include "producer/recovery/predecessor.hpp"
#include "producer/runner/checkpoint/run_checkpoint.hpp"
#include "producer/runner/report/dropped_log.hpp"
#include "producer/runner/sources/batch_source.hpp"

namespace offramp {

// Which items of a run are done, by it and before it: the checkpoint, where it keeps one; the list of what it dropped;
// what its earlier producers read.
//
// Owns: checkpoint and list. Borrows: config, source. Thread: begin(), completed() and dropped() from any; the rest
// from the run's. Blocks: on the file system. Errors: see RunCheckpoint; ConfigError for --resume without an output
// folder; the checks of recovery_checks.hpp. What the checkpoint's thread meets goes to `on_failure`.
class WorkRecord {
  public:
    struct Place {
        std::string run_dir;
        bool keeps_results = true;  // else there is nothing to continue
        std::function<void(std::exception_ptr)> on_failure;
        std::vector<StitchedOutput> stitched{};
    };
    WorkRecord(const RunConfig& config, const BatchSource& source, Place place);

    // For another producer, should this one die.
    void describe(RunProgress& progress) const;
    // Of a run that is recovered: takes up what the dead producer did, once it is clear that this was the same work.
    void go_on(const RunProgress& progress, const Predecessor& predecessor);

    void begin(const PublishedSlab& slab);  // before anybody gets it
    void completed(const PublishedSlab& slab);
    void dropped(std::uint64_t batch, std::span<const RowInfo> rows);

    // Items that earlier runs did.
    std::uint64_t done_before() const { return checkpoint_ ? checkpoint_->items_before() : 0; }
    // Items that earlier producers read for this run.
    std::uint64_t sourced_before() const { return sourced_before_; }
    // Which items this run makes (share_of()).
    ItemRange share() const { return share_; }
    // What need not be made: it is not of this run's share, earlier runs did it, or this run's earlier producers
    // published it or could not read it.
    ItemRanges done_earlier(const Predecessor& predecessor) const;
    // How many of the share are in that.
    std::uint64_t items_done_earlier(const Predecessor& predecessor) const;

    void close();
    // After close(): nothing is left that this run could do.
    void end();

  private:
    void open_checkpoint(const Predecessor& predecessor);

    const RunConfig& config_;
    const BatchSource& source_;
    const ItemRange share_;
    const Place place_;
    std::unique_ptr<RunCheckpoint> checkpoint_;  // null: nothing of this run is kept
    std::uint64_t sourced_before_ = 0;
    DroppedLog dropped_;
};

}  // namespace offramp
