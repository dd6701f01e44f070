#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "common/base/item_ranges.hpp"
#include "common/settings/sections/result_settings.hpp"
#include "producer/runner/checkpoint/checkpoint_writer.hpp"
#include "producer/runner/checkpoint/earlier_work.hpp"
#include "producer/runner/checkpoint/output_lock.hpp"
#include "producer/runner/checkpoint/replaced_items.hpp"
#include "producer/runner/checkpoint/result_folders.hpp"
#include "producer/runner/checkpoint/tiles_in_place.hpp"
#include "producer/runner/sources/batch_source.hpp"

namespace offramp {

struct RunConfig;

// A run's claim on its output folder: the lock that keeps others out, what earlier runs have done of the same work, and
// the checkpoint in which it notes what it does itself.
//
// Nothing is noted once a name leads elsewhere than to the folder that this run began with.
//
// Owns: lock, folders and writer. Thread: completed() from any, the rest from one. Blocks: the constructor and close()
// on the file system. Errors: the constructor: RunInUse; ConfigError when the folder's checkpoint is of other input,
// model or settings than these and
// --resume was asked for (items may have joined); BadInput when the checkpoint is damaged; CannotWrite. Later: see
// CheckpointWriter.
class RunCheckpoint {
  public:
    // `source`: in_order_of_previous_runs(); it outlives this.
    // `stitched`: where the run's consumers put tiles together.
    RunCheckpoint(const RunConfig& config, const BatchSource& source, EarlierWork earlier,
                  std::function<void(std::exception_ptr)> on_failure, std::vector<StitchedOutput> stitched = {});

    // What of the run's share (share_of()) need not be made: by runs before this one, and by producers of this run
    // before this one. Fixed.
    const ItemRanges& done() const { return done_; }
    // How many items were done when this run began.
    std::uint64_t items_before() const { return items_before_; }
    // Before a slab's items go to anybody who might put their results in the place of a previous run's.
    void begin(const std::vector<ItemRange>& items);
    // Their completion was accepted. From the first one on, the folder's checkpoint is this run's.
    void completed(const std::vector<ItemRange>& items) { writer_->note(items); }
    void close();
    // After close(): nothing is left that this run could do. Errors: those of TilesInPlace::require().
    void end();

  private:
    void replaces(const Checkpoint& previous, const ResultSettings& config, const std::string& write_path,
                  const CheckpointIdentity& identity, const BatchSource& source);
    ItemRanges without_replaced(const Checkpoint& previous, const BatchSource& source) const;

    void require_in_place();

    const std::string folder_;
    OutputLock lock_;
    ResultFolders result_folders_;
    std::mutex in_place_;  // guards them
    const TilesInPlace tiles_;
    ItemRanges done_;
    std::uint64_t items_before_ = 0;
    std::unique_ptr<CheckpointWriter> writer_;
    // Where another run's checkpoint stays until this one has done something.
    std::unique_ptr<ReplacedItems> replaced_;
    const BatchSource* replacing_ = nullptr;  // its items' files may be; none: this run makes no files of single items
};

// The source with its items numbered as the output folder's checkpoint has them, which is there or not
// (producer/runner/sources/source_order.hpp): items that joined are the last. Errors: those of read_checkpoint().
std::unique_ptr<BatchSource> in_order_of_previous_runs(std::unique_ptr<BatchSource> source, const std::string& folder);

}  // namespace offramp
