#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/app/settings/sections.hpp"
#include "common/base/items.hpp"
#include "producer/runner/checkpoint/checkpoint_writer.hpp"
#include "producer/runner/checkpoint/output_lock.hpp"
#include "producer/runner/checkpoint/tiles_in_place.hpp"
#include "producer/runner/sources/batch_source.hpp"

namespace offramp {

// How a run treats the completed work in an output folder's checkpoint. Independent of RunStart: a new run may resume
// another one's work, and a recovered run may have none.
enum class EarlierWork {
    DoneAgain,  // the run starts over; the checkpoint stays until this run has completed an item
    Resumed,    // completed items are not processed again
    Recovered,  // like Resumed, but the work is this run's own: its producer died after it had published results
};

struct RunConfig;

// A run's claim on its output folder: the lock against other runs, the completed work of earlier runs, and the run's
// own checkpoint.
//
// It records no work once a name leads to another folder than the one this run began with.
//
// Owns: lock, folders and writer. Thread: completed() from any, the rest from one. Blocks: the constructor and close()
// on the file system.
//
// Errors of the constructor: RunInUse; ConfigError with --resume when the folder's checkpoint is of other input, model
// or settings (items may have joined); BadInput when the checkpoint is damaged; CannotWrite. Later errors: see
// CheckpointWriter.
class RunCheckpoint {
  public:
    // `source`: in_order_of_previous_runs(); it outlives this object.
    // `stitched`: outputs whose tiles the run's consumers join. `form`: of the items, if they are arrays that keep
    // their shapes.
    RunCheckpoint(const RunConfig& config, const BatchSource& source, EarlierWork earlier,
                  std::function<void(std::exception_ptr)> on_failure, std::vector<StitchedOutput> stitched = {},
                  std::optional<SampleForm> form = {});

    // Items of the run's share (share_of()) that are already completed, by earlier runs or by earlier producers of this
    // run. Fixed.
    const ItemRanges& done() const { return done_; }
    // source_hash() of the source, which is known here.
    std::uint64_t source_hash() const { return source_hash_; }
    // The number of completed items when this run began.
    std::uint64_t items_before() const { return items_before_; }
    // Call it before handing out a slab's items: results may exist from here on.
    void begin(const std::vector<ItemRange>& items);
    // Records accepted completions.
    void completed(const std::vector<ItemRange>& items) { writer_->note(items); }
    void close();
    // Call after close(), when this run has no work left. Errors: those of TilesInPlace::require().
    void end();

  private:
    void require_in_place();

    const std::string folder_;
    OutputLock lock_;
    ResultFolders result_folders_;
    std::mutex in_place_;  // guards lock_ and result_folders_
    const TilesInPlace tiles_;
    std::uint64_t source_hash_ = 0;
    ItemRanges done_;
    std::uint64_t items_before_ = 0;
    std::unique_ptr<CheckpointWriter> writer_;
};

// The source with its items numbered as in the output folder's checkpoint, if there is one
// (producer/runner/sources/source_items.hpp): joined items come last. Errors: those of read_checkpoint().
std::unique_ptr<BatchSource> in_order_of_previous_runs(std::unique_ptr<BatchSource> source, const std::string& folder);

// The form of the items in that checkpoint, if it has one.
std::optional<SampleForm> form_of_previous_runs(const std::string& folder);

// A completed shard of a job, counted from 0.
struct DoneShard {
    std::uint64_t index = 0;
    bool whole = true;  // every item of its share has a result: none was skipped, dropped or dead-lettered
};

// Creates OUTPUT's checkpoint from those of a job's shards (common/app/program/output_share.hpp). It is the checkpoint
// of a run of the whole input, named `run_id`, with the shards' completed items. It has ended if all `count` shards are
// there. A later run with --resume continues it. `shards`: ascending. Run one merge at a time: hold the lock of OUTPUT.
// Blocks: on the file system. Errors: ConfigError if one is of other work than the others; Error with BadInput if one
// cannot be read; SystemError with CannotWrite.
void join_checkpoints(const std::string& output, const std::string& run_id, std::span<const DoneShard> shards,
                      std::uint64_t count);

}  // namespace offramp
