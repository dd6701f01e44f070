// How a run comes to its end: told to, by an error, or done; and what is said of it until then.

#include <algorithm>

#include "common/base/clock.hpp"
#include "common/base/log.hpp"
#include "producer/runner/run/producer_run.hpp"

namespace offramp {

void ProducerRun::refuse_slabs() { exchange_->stop(); }

void ProducerRun::end_input() { input_->finish_early(); }

void ProducerRun::stop_outputs() { egress_->stop(); }

void ProducerRun::send_consumers_away() { delivery_->abort(); }

// What the step throws ends the run.
void ProducerRun::attempt(const std::function<void()>& step) {
    try {
        step();
    } catch (...) {
        fail(std::current_exception());
    }
}

void ProducerRun::fail(std::exception_ptr error) {
    lifecycle_.note(error);
    leave_to_successor(error);
    lifecycle_.stop(StopMode::Abandon, "a part failed");
}

void ProducerRun::beat() {
    bool anyone = true;
    lifecycle_.while_under_way([&] {
        const RunFigures now = figures();
        report_->write_status(now);
        anyone = std::any_of(now.broker.consumers.begin(), now.broker.consumers.end(),
                             [](const ConsumerReport& consumer) { return consumer.end.empty(); });
    });
    if (!anyone) lifecycle_.no_consumers();
}

RunFigures ProducerRun::figures() const {
    const Prefetcher::Progress input = input_->progress();
    const OutputFigures output = egress_->figures();
    const ComputeTime computed = inference_->computed();
    RunFigures figures{.broker = delivery_->report(),
                       .sourced = sourced_before_ + input.items_delivered,
                       .skipped = predecessor_.totals.holes + input.holes_delivered + output.samples_rejected,
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
                       .samples = predecessor_.totals.dropped + output.samples_unpublished()};
    figures.dropped_when_full = {.batches = output.batches_dropped,
                                 .samples = predecessor_.totals.dropped + output.samples_dropped};
    figures.failure = lifecycle_.failure();
    figures.state = lifecycle_.word(figures.broker.ended);
    const std::lock_guard lock(mutex_);
    figures.measured_from = before_measured_;
    figures.pinning = pinning_;
    figures.limits = limits_;
    return figures;
}

// Nothing when it cannot be written that the run came to its end: that is the error then.
std::optional<ExitCode> ProducerRun::end_of(const RunFigures& figures) {
    const ExitCode exit = outcome(figures);
    if (!checkpoint_ || (exit != ExitCode::Ok && exit != ExitCode::SetAside)) return exit;
    try {
        checkpoint_->end();
        return exit;
    } catch (...) {
        lifecycle_.note(std::current_exception());
        return std::nullopt;
    }
}

// From independent records: what the prefetcher gave out, what the egress dropped, what the broker saw published and
// done.
ExitCode ProducerRun::outcome(const RunFigures& figures) const {
    const BrokerReport& broker = figures.broker;
    const bool abandoned = lifecycle_.is_stopped(StopMode::Abandon);
    const bool nothing_abandoned = abandoned || figures.dropped.samples == figures.dropped_when_full.samples;
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
    const bool input_is_left = figures.sourced + done_before() < source_->items();
    if (abandoned || (lifecycle_.stopped() && input_is_left)) return ExitCode::Interrupted;
    return broker.quarantined.slabs == 0 ? ExitCode::Ok : ExitCode::SetAside;
}

}  // namespace offramp
