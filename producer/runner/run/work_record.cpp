#include "producer/runner/run/work_record.hpp"

#include <algorithm>
#include <utility>

#include "common/app/settings/kept_settings.hpp"
#include "common/base/error.hpp"
#include "producer/runner/run/recovery_checks.hpp"
#include "producer/runner/sources/source_fingerprint.hpp"
#include "producer/runner/sources/source_part.hpp"

namespace offramp {

WorkRecord::WorkRecord(const RunConfig& config, const BatchSource& source, Place place)
    : config_(config),
      source_(source),
      share_(share_of(source, config)),
      place_(std::move(place)),
      dropped_(place_.run_dir) {
    if (!config_.recover) open_checkpoint({});
}

void WorkRecord::open_checkpoint(const Predecessor& predecessor) {
    if (config_.resume && config_.output.empty())
        throw ConfigError("--resume needs --output", "Give the output folder of the run to continue");
    if (config_.output.empty() || !place_.keeps_results) return;
    // A producer that died before it published any sample may have left another run's checkpoint there: slabs of empty
    // rows alone are not recorded.
    const bool recovers = config_.recover && predecessor.totals.published.samples > 0;
    const auto earlier = recovers         ? EarlierWork::Recovered
                         : config_.resume ? EarlierWork::Resumed
                                          : EarlierWork::DoneAgain;
    checkpoint_ = std::make_unique<RunCheckpoint>(config_, source_, earlier, place_.on_failure, place_.stitched);
}

void WorkRecord::describe(RunProgress& progress) const {
    progress.items = source_.items();
    progress.keys_hash = source_hash(source_);
    progress.done_before = done_before();
    keep_settings(place_.run_dir, config_);
}

void WorkRecord::go_on(const RunProgress& progress, const Predecessor& predecessor) {
    open_checkpoint(predecessor);
    require_same_checkpoint(progress, done_before(), config_.output);
    sourced_before_ = sourced_by(predecessor, share_, checkpoint_.get());
    if (checkpoint_) note_completed_by(predecessor, share_, *checkpoint_);
}

void WorkRecord::before_publishing(const PublishedSlab& slab) {
    if (checkpoint_) checkpoint_->begin(slab.items);
}

void WorkRecord::on_completed(const PublishedSlab& slab) {
    if (checkpoint_) checkpoint_->completed(slab.items);
}

void WorkRecord::on_dropped(std::uint64_t batch, std::span<const RowInfo> rows) { dropped_.note(batch, rows); }

ItemRanges WorkRecord::done_earlier(const Predecessor& predecessor) const {
    ItemRanges done = checkpoint_ ? checkpoint_->done() : ItemRanges{};
    done.add({0, std::max(share_.begin, predecessor.totals.items_through)});
    done.add({share_.end, source_.items()});
    return done;
}

std::uint64_t WorkRecord::items_done_earlier(const Predecessor& predecessor) const {
    const std::uint64_t of_others = source_.items() - (share_.end - share_.begin);
    return done_earlier(predecessor).items() - of_others;
}

void WorkRecord::close() {
    if (checkpoint_) checkpoint_->close();
}

void WorkRecord::end() {
    if (checkpoint_) checkpoint_->end();
}

}  // namespace offramp
