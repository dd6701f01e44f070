#include "producer/runner/run/work_record.hpp"

#include <algorithm>
#include <utility>

#include "common/app/settings/kept_settings.hpp"
#include "common/app/settings/setting_group.hpp"
#include "common/base/error.hpp"
#include "common/transport/endpoint.hpp"
#include "producer/runner/sources/source_items.hpp"

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
    checkpoint_ =
        std::make_unique<RunCheckpoint>(config_, source_, earlier, place_.on_failure, place_.stitched, place_.form);
}

void WorkRecord::describe(RunProgress& progress) const {
    progress.items = source_.items();
    progress.keys_hash = checkpoint_ ? checkpoint_->source_hash() : source_hash(source_);
    progress.done_before = done_before();
    keep_settings(place_.run_dir, config_);
    for (const GroupSettings& group : config_.groups()) {
        const std::string folder = Endpoint::group_dir(place_.run_dir, group.name);
        keep_settings(folder, config_of_group(config_, group, folder));
    }
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

void WorkRecord::on_dropped(std::uint64_t batch, std::span<const RowInfo> rows, const std::string& group) {
    dropped_.note(batch, rows, group);
}

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

void require_kept_settings(const std::string& run_dir, const RunConfig& config) {
    const RunConfig kept = kept_settings(run_dir);
    std::string differing;
    for (const Setting& setting : make_settings()) {
        if (!setting.effect.outlives_producer()) continue;
        const std::string then = setting.compared(kept), now = setting.compared(config);
        if (then != now)
            differing +=
                (differing.empty() ? "--" : ", --") + setting.flag + " was '" + then + "' and is '" + now + "'";
    }
    if (!differing.empty())
        throw ConfigError("the run in " + run_dir + " was started with other settings: " + differing,
                          "Give the same as in " + kept_settings_path(run_dir) + ", or start another run");
}

void require_same_input(const RunProgress& progress, const BatchSource& source) {
    if (progress.items == source.items() && progress.keys_hash == source_hash(source)) return;
    throw ConfigError("the input differs from that of the run to take over: " + std::to_string(source.items()) +
                          " items, there were " + std::to_string(progress.items) +
                          (progress.items == source.items() ? " of other names" : ""),
                      "Put the input back as it was, or start another run");
}

void require_same_checkpoint(const RunProgress& progress, std::uint64_t done_before, const std::string& output) {
    if (done_before == progress.done_before) return;
    throw Error(ErrorKind::BadInput,
                "the checkpoint in " + output + " has " + std::to_string(done_before) +
                    " items completed before this run, and its progress record " + std::to_string(progress.done_before),
                "Another program changed it: end this run, and start it again with --resume");
}

// Items before the high-water mark that earlier runs had not completed. Completed items beyond the mark are those
// runs': this run has published nothing there.
std::uint64_t sourced_by(const Predecessor& predecessor, ItemRange share, const RunCheckpoint* checkpoint) {
    const std::uint64_t through = std::max(share.begin, predecessor.totals.items_through);
    if (checkpoint == nullptr) return through - share.begin;
    std::uint64_t behind = 0;
    for (const ItemRange& range : checkpoint->done().list())
        if (range.end > through) behind += range.end - std::max(range.begin, through);
    return through - share.begin - (checkpoint->items_before() - behind);
}

// Items before the high-water mark that wait neither in memory nor on the disk. They are completed only if the progress
// record has no unreadable, dropped or dead-lettered items: it does not record which ones those were. With any of them,
// nothing is written, and a later --resume processes the items again. The checkpoint may lag behind the outputs, and
// never leads.
void note_completed_by(const Predecessor& predecessor, ItemRange share, RunCheckpoint& checkpoint) {
    const ItemRanges waiting = predecessor.waiting();
    if (predecessor.totals.dead_letters.samples > 0 ||
        sourced_by(predecessor, share, &checkpoint) != predecessor.totals.completed.samples + waiting.items())
        return;
    std::vector<ItemRange> completed;
    std::uint64_t from = share.begin;
    for (const ItemRange& range : waiting.list()) {
        if (range.begin > from) completed.push_back({from, range.begin});
        from = range.end;
    }
    if (from < predecessor.totals.items_through) completed.push_back({from, predecessor.totals.items_through});
    checkpoint.completed(completed);
}

}  // namespace offramp
