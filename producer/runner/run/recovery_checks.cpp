#include "producer/runner/run/recovery_checks.hpp"

#include <algorithm>

#include "common/app/settings/kept_settings.hpp"
#include "common/app/settings/setting.hpp"
#include "common/base/error.hpp"
#include "producer/runner/sources/source_fingerprint.hpp"

namespace offramp {

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
    if (sourced_by(predecessor, share, &checkpoint) != predecessor.totals.completed.samples + waiting.items()) return;
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
