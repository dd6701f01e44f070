// A run's memory, made anew or recovered from a producer that died; and what a producer does that dies itself.

#include <cstdlib>
#include <utility>

#include "common/base/log.hpp"
#include "common/base/trace_recording.hpp"
#include "common/settings/kept_settings.hpp"
#include "producer/recovery/run_recovery.hpp"
#include "producer/runner/run/producer_run.hpp"
#include "producer/runner/run/recovery_checks.hpp"
#include "producer/runner/sources/source_fingerprint.hpp"

namespace offramp {
namespace {

constexpr std::uint32_t kConsumerCapacity = 64;

}  // namespace

void ProducerRun::make_memory() {
    records_ = std::make_unique<RunRecords>(RunMemory(endpoint_.names, plan_.layout, plan_.spans, kConsumerCapacity,
                                                      endpoint_.epoch, !config_.consumer_user.empty()));
    RunProgress& progress = records_->memory.progress();
    progress.began_ns = began_ns_;
    progress.items = source_->items();
    progress.keys_hash = source_hash(*source_);
    progress.done_before = done_before();
    progress.producers = 1;
    keep_settings(directory_.path(), config_);
}

// Nothing is changed before it is clear that this producer would go on exactly where the other one stopped.
void ProducerRun::recover_memory() {
    RunRecovery recovery({endpoint_.names, plan_.layout, plan_.spans, kConsumerCapacity});
    endpoint_.epoch = recovery.epoch();
    require_same_input(recovery.progress(), *source_);
    recovery.take_up({.batch = config_.batch, .items = source_->items()}, spill_.get());
    predecessor_ = recovery.predecessor();
    open_checkpoint();
    require_same_checkpoint(recovery.progress(), done_before(), config_.output);
    sourced_before_ = sourced_by(predecessor_, checkpoint_.get());
    if (checkpoint_) note_completed_by(predecessor_, *checkpoint_);
    records_ = std::move(recovery).go_on();
}

// What need not be made: earlier runs did it, or this run's earlier producers published it (or could not read it).
ItemRanges ProducerRun::done_earlier() const {
    ItemRanges done = checkpoint_ ? checkpoint_->done() : ItemRanges{};
    done.add({0, predecessor_.totals.items_through});
    return done;
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
