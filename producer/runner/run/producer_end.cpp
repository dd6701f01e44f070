// How a run comes to its end: told to, by an error, or done; and what is said of it until then.

#include <algorithm>
#include <cstdlib>

#include "common/base/clock.hpp"
#include "common/base/log.hpp"
#include "common/base/scarcity.hpp"
#include "common/program/trace_file.hpp"
#include "producer/runner/run/producer_run.hpp"

namespace offramp {

void ProducerRun::log_stop(StopMode mode, const std::string& why) {
    if (mode == StopMode::Drain)
        spdlog::warn("draining, {}: batches in flight are finished, no more input is read", why);
    else
        spdlog::warn("stopping at once: {}", why);
}

void ProducerRun::end_input() { input_->finish_early(); }

void ProducerRun::stop_outputs() { egress_->stop(); }

void ProducerRun::send_consumers_away() { egress_->delivery().abort(); }

// What the step throws ends the run.
void ProducerRun::attempt(const std::function<void()>& step) {
    try {
        step();
    } catch (...) {
        fail(std::current_exception());
    }
}

void ProducerRun::fail(std::exception_ptr error) {
    lifecycle_.note(with_limits_named(error));
    leave_to_successor(error);
    lifecycle_.stop(StopMode::Abandon, "a part failed");
}

// A device that is lost takes this process with it, and nothing else: consumers, slabs and progress record stay for the
// next producer. So it ends as if it had been killed, without a word to anyone; unwinding would wait for a device that
// never answers.
void ProducerRun::leave_to_successor(std::exception_ptr error) {
    ErrorKind kind = ErrorKind::None;
    try {
        std::rethrow_exception(error);
    } catch (const Error& problem) {
        kind = problem.kind();
    } catch (...) {
        return;
    }
    const bool device_is_lost = kind == ErrorKind::DeviceBroken || kind == ErrorKind::DeviceOutOfMemory;
    if (!device_is_lost || !place_.is_ours() || !strategy_->traits().survives_producer() ||
        !launcher_.may_be_succeeded())
        return;
    spdlog::critical("{}. What is in flight is left to another producer (--adopt)", lifecycle_.failure());
    save_recording();
    std::_Exit(to_int(kind));
}

void ProducerRun::beat() {
    bool anyone = true;
    lifecycle_.while_under_way([&] {
        const RunFigures now = figures();
        report_->write_status(now);
        anyone = std::any_of(now.broker.consumers.begin(), now.broker.consumers.end(),
                             [](const ConsumerReport& consumer) { return consumer.end.empty(); });
    });
    if (!anyone) launcher_.no_consumers();
}

RunFigures ProducerRun::figures() const {
    const Prefetcher::Progress input = input_->progress();
    const OutputFigures output = egress_->path().figures();
    const ProgressLog::Totals& previous = egress_->predecessor().totals;
    const ComputeTime computed = inference_->computed();
    RunFigures figures{.broker = egress_->delivery().report(),
                       .sourced = sourced_before_ + input.items_delivered,
                       .skipped = previous.skipped + input.items_skipped + output.samples_rejected,
                       .skipped_items = input_->skipped().list(),
                       .unreadable_ahead = input_->unreadable_ahead(),
                       .compute_busy_seconds = computed.seconds,
                       .compute_busy_batches = computed.batches,
                       .copy_seconds = output.copy_seconds,
                       .input_wait_seconds = input.next_blocked_seconds,
                       .slab_wait_seconds = egress_->slab_wait_seconds(),
                       .output_wait_seconds = inference_->output_wait_seconds(),
                       .seconds_to_first_slab = egress_->seconds_to_first_slab(),
                       .seconds_to_all_slabs = egress_->seconds_to_all_slabs(),
                       .measured_from = measuring_->from(),
                       .so_far = measuring_->so_far(),
                       .at_ns = now_ns()};
    figures.dropped = {.batches = output.batches_unpublished(),
                       .samples = previous.dropped + output.samples_unpublished()};
    figures.dropped_when_full = {.batches = output.batches_dropped,
                                 .samples = previous.dropped + output.samples_dropped};
    figures.pinning = egress_->pinning();
    figures.failure = lifecycle_.failure();
    figures.state = lifecycle_.word();
    figures.limits = measuring_->limits();
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
        lifecycle_.note(with_limits_named(std::current_exception()));
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
        return exit_code_for(ErrorKind::Conservation);
    }
    const bool input_is_left = figures.sourced + done_before() < source_->items();
    if (abandoned || (lifecycle_.stopped() && input_is_left)) return ExitCode::Interrupted;
    return broker.quarantined.slabs == 0 ? ExitCode::Ok : ExitCode::SetAside;
}

}  // namespace offramp
