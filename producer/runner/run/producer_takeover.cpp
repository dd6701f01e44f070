// A run's memory, made anew or taken over from a producer that died; and what a producer does that dies itself.

#include <algorithm>
#include <cstdlib>

#include "common/base/log.hpp"
#include "common/base/trace_recording.hpp"
#include "common/settings/kept_settings.hpp"
#include "producer/runner/run/adoption.hpp"
#include "producer/runner/run/producer_run.hpp"
#include "producer/runner/sources/source_fingerprint.hpp"

namespace offramp {
namespace {

constexpr std::uint32_t kConsumerCapacity = 64;

}  // namespace

void ProducerRun::make_memory() {
    memory_ = std::make_unique<RunMemory>(endpoint_.names, plan_.layout, plan_.spans, kConsumerCapacity,
                                          endpoint_.epoch, !config_.consumer_user.empty());
    ledger_ = std::make_unique<SlabLedger>(SlabLedger::format(memory_->ledger(), endpoint_.epoch));
    RunProgress& progress = memory_->progress();
    progress.began_ns = began_ns_;
    progress.items = source_->items();
    progress.keys_hash = source_hash(*source_);
    progress.done_before = done_before();
    progress.producers = 1;
    progress_ = std::make_unique<ProgressLog>(progress);
    keep_settings(directory_.path(), config_);
}

// Nothing is changed before it is clear that this producer would go on exactly where the other one stopped.
void ProducerRun::adopt_memory() {
    memory_ =
        std::make_unique<RunMemory>(RunMemory::adopt(endpoint_.names, plan_.layout, plan_.spans, kConsumerCapacity));
    endpoint_.epoch = memory_->epoch();
    RunProgress& progress = memory_->progress();
    if (progress.items != source_->items() || progress.keys_hash != source_hash(*source_))
        throw ConfigError("the input is not what the run to take over began with: " + std::to_string(source_->items()) +
                              " items, there were " + std::to_string(progress.items) +
                              (progress.items == source_->items() ? " of other names" : ""),
                          "Put the input back as it was, or start another run without --adopt");
    progress_ = std::make_unique<ProgressLog>(progress);
    former_ = progress_->totals();
    ledger_ =
        std::make_unique<SlabLedger>(SlabLedger::adopt(memory_->ledger(), endpoint_.epoch, progress_->last_step()));
    const auto read = [this](std::initializer_list<SlabState> states) {
        return read_slabs(states, *ledger_, endpoint_.names, plan_.spans, config_.batch, source_->items());
    };
    in_flight_ = read({SlabState::Ready, SlabState::Leased});
    given_up_ = read({SlabState::Quarantined});
    if (spill_)
        spilled_ = read_spilled(*spill_, *ledger_, endpoint_.names, config_.batch, source_->items(), in_flight_);
    require_conserved(former_, in_flight_, spilled_);
    open_manifest();
    if (done_before() != progress.done_before)
        throw Error(ExitCode::BadInput,
                    "the manifest in " + config_.output + " says that " + std::to_string(done_before()) +
                        " items were done before this run, its account says " + std::to_string(progress.done_before),
                    "Somebody changed it: end this run, and start it again with --resume");
    sourced_before_ = sourced_by_former();
    note_completed_by_former();
    ++progress.producers;
    spdlog::info(
        "taking over run '{}' as epoch {}: {} samples published through item {}, {} completed, {} slabs in flight",
        endpoint_.names.run_id, endpoint_.epoch, former_.published.samples, former_.items_through,
        former_.completed.samples, in_flight_.size());
}

// What need not be made: earlier runs did it, or this run's former producers published it (or could not read it).
ItemRanges ProducerRun::done_earlier() const {
    ItemRanges done = manifest_ ? manifest_->done() : ItemRanges{};
    done.add({0, former_.items_through});
    return done;
}

// Everything before the frontier that earlier runs had not done. What the manifest holds behind the frontier is theirs:
// this run has published nothing there.
std::uint64_t ProducerRun::sourced_by_former() const {
    if (!manifest_) return former_.items_through;
    std::uint64_t behind = 0;
    for (const ItemRange& range : manifest_->done().list())
        if (range.end > former_.items_through) behind += range.end - std::max(range.begin, former_.items_through);
    return former_.items_through - (manifest_->items_before() - behind);
}

// What the dead producer had accepted and not written into the manifest yet: everything before the frontier that waits
// neither in memory nor on the disk. That is so only if everything else was completed, which the account tells: items
// that could not be read, were dropped or were given up are none of it, and which they were nobody knows any more. With
// such, it stays unwritten, and a later --resume makes it again to no effect: the manifest may lag behind the outputs,
// and never leads.
void ProducerRun::note_completed_by_former() {
    if (!manifest_) return;
    ItemRanges waiting;
    const auto note_waiting = [&waiting](const PublishedSlab& slab) {
        for (const ItemRange& range : slab.items) waiting.add(range);
    };
    for (const PublishedSlab& slab : in_flight_) note_waiting(slab);
    for (const SpilledSlab& slab : spilled_) note_waiting(slab.published);
    if (sourced_before_ != former_.completed.samples + waiting.items()) return;
    PublishedSlab completed;
    std::uint64_t from = 0;
    for (const ItemRange& range : waiting.list()) {
        if (range.begin > from) completed.items.push_back({from, range.begin});
        from = range.end;
    }
    if (from < former_.items_through) completed.items.push_back({from, former_.items_through});
    manifest_->completed(completed);
}

// A device that is lost takes this process with it, and nothing else: consumers, slabs and account stay for the next
// producer. So it ends as if it had been killed, without a word to anyone; unwinding would wait for a device that never
// answers.
void ProducerRun::leave_to_successor(std::exception_ptr error) {
    ExitCode code = ExitCode::Ok;
    try {
        std::rethrow_exception(error);
    } catch (const Error& problem) {
        code = problem.exit_code();
    } catch (...) {
        return;
    }
    const bool device_is_lost = code == ExitCode::DeviceBroken || code == ExitCode::DeviceOutOfMemory;
    if (!device_is_lost || !last_sweep_.armed || !traits_.survives_producer() || !lifecycle_.may_be_succeeded()) return;
    spdlog::critical("{}. What is in flight is left to another producer (--adopt)", lifecycle_.failure());
    save_recording();
    std::_Exit(to_int(code));
}

}  // namespace offramp
