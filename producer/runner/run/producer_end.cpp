// How a run comes to its end: told to, by an error, or done; and what is said of it until then.

#include <algorithm>

#include "common/base/clock.hpp"
#include "common/base/log.hpp"
#include "common/base/scarcity.hpp"
#include "producer/runner/run/producer_run.hpp"

namespace offramp {

// Too many items were unreadable: the run fails, but what could be read and was computed is delivered.
void ProducerRun::finish_what_was_read() {
    note(std::current_exception());
    try {
        egress_->finish();
    } catch (...) {
        fail(std::current_exception());
    }
}

void ProducerRun::drain(const char* why) {
    if (std::string_view(why) == kLauncherGone) launcher_gone_ = true;
    if (draining_.exchange(true)) return;
    spdlog::warn("draining, {}: batches in flight are finished, no more input is read", why);
    const std::shared_lock lock(parts_lifetime_);
    if (parts_ready_) input_->finish_early();
}

void ProducerRun::abandon(const char* why) {
    if (abandoned_.exchange(true)) return;
    halt(why);
    stop_parts();
}

// The model's thread ends, and learns why; consumers are told nothing yet, for the error decides whether a successor
// may go on with them.
void ProducerRun::halt(const char* why) {
    if (halted_.exchange(true)) return;
    spdlog::warn("stopping at once: {}", why);
    draining_ = true;
    exchange_->stop();
    const std::shared_lock lock(parts_lifetime_);
    if (!parts_ready_) return;
    input_->finish_early();
    egress_->stop();
}

void ProducerRun::stop_parts() {
    const std::shared_lock lock(parts_lifetime_);
    if (!parts_ready_) return;
    input_->finish_early();
    egress_->stop();
    delivery_->abort();
}

// From here on no other thread touches a part.
void ProducerRun::retire_parts() {
    const std::unique_lock lock(parts_lifetime_);
    parts_ready_ = false;
}

void ProducerRun::fail(std::exception_ptr error) {
    note(error);
    leave_to_successor(error);
    abandon("a part failed");
}

// The first error is the run's.
void ProducerRun::note(std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    if (first_error_) return;
    first_error_ = with_limits_named(error);
    try {
        std::rethrow_exception(first_error_);
    } catch (const std::exception& problem) {
        failure_ = problem.what();
    } catch (...) {
        failure_ = "an exception of an unknown kind";
    }
}

void ProducerRun::beat() {
    bool anyone = true;
    {
        const std::shared_lock lock(parts_lifetime_);
        if (!parts_ready_) return;
        const RunFigures now = figures();
        report_->write_status(now);
        anyone = std::any_of(now.broker.consumers.begin(), now.broker.consumers.end(),
                             [](const ConsumerReport& consumer) { return consumer.end.empty(); });
    }
    // Nobody is left to start another consumer: what is in flight can never be taken.
    if (launcher_gone_ && !anyone) abandon("the launcher and all consumers are gone");
}

RunFigures ProducerRun::figures() const {
    const Prefetcher::Progress input = input_->progress();
    const OutputFigures output = egress_->figures();
    const ComputeTime computed = inference_->computed();
    RunFigures figures{.broker = delivery_->report(),
                       .sourced = sourced_before_ + input.items_delivered,
                       .skipped = former_.holes + input.holes_delivered + output.samples_rejected,
                       .skipped_items = input_->skipped().list(),
                       .unreadable_ahead = input_->unreadable_ahead(),
                       .compute_busy_seconds = computed.seconds,
                       .compute_busy_batches = computed.batches,
                       .copy_seconds = output.copy_seconds,
                       .input_wait_seconds = input.next_blocked_seconds,
                       .slab_wait_seconds = exchange_->wait_seconds(),
                       .output_wait_seconds = inference_->output_wait_seconds(),
                       .seconds_to_first_slab = pool_ ? pool_->seconds_to_first() : 0,
                       .seconds_to_all_slabs = pool_ ? pool_->seconds_to_all() : 0,
                       .so_far = figures_so_far(),
                       .at_ns = now_ns()};
    figures.dropped = {.batches = output.batches_unpublished(),
                       .samples = former_.dropped + output.samples_unpublished()};
    figures.dropped_when_full = {.batches = output.batches_dropped,
                                 .samples = former_.dropped + output.samples_dropped};
    const std::lock_guard lock(mutex_);
    figures.measured_from = before_measured_;
    figures.pinning = pinning_;
    figures.limits = limits_;
    figures.failure = failure_;
    figures.state = !failure_.empty()      ? "failed"
                    : ended_               ? (abandoned_ ? "abandoned" : "ended")
                    : draining_            ? "draining"
                    : figures.broker.ended ? "ending"  // consumers have left, the limits are still measured
                                           : "running";
    return figures;
}

// Nothing when it cannot be written that the run came to its end: that is the error then.
std::optional<ExitCode> ProducerRun::end_of(const RunFigures& figures) {
    const ExitCode exit = outcome(figures);
    if (!manifest_ || (exit != ExitCode::Ok && exit != ExitCode::SetAside)) return exit;
    try {
        manifest_->end();
        return exit;
    } catch (...) {
        note(std::current_exception());
        return std::nullopt;
    }
}

// From independent records: what the prefetcher gave out, what the egress dropped, what the broker saw published and
// done.
ExitCode ProducerRun::outcome(const RunFigures& figures) const {
    const BrokerReport& broker = figures.broker;
    const bool nothing_abandoned = abandoned_ || figures.dropped.samples == figures.dropped_when_full.samples;
    if (!broker.conserved() || !nothing_abandoned ||
        figures.sourced != figures.skipped + figures.dropped.samples + broker.published.samples) {
        spdlog::critical(
            "samples are not accounted for: {} sourced, {} skipped, {} dropped ({} of them for want of a slab), {} "
            "published, {} completed, {} in flight, {} spilled, {} quarantined",
            figures.sourced, figures.skipped, figures.dropped.samples, figures.dropped_when_full.samples,
            broker.published.samples, broker.completed.samples, broker.in_flight.samples, broker.spilled.samples,
            broker.quarantined.samples);
        return ExitCode::Conservation;
    }
    if (abandoned_ || (draining_ && figures.sourced + done_before() < source_->items())) return ExitCode::Interrupted;
    return broker.quarantined.slabs == 0 ? ExitCode::Ok : ExitCode::SetAside;
}

}  // namespace offramp
