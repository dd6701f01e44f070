#include "producer/runner/run/run_outcome.hpp"

#include "common/base/error_kind.hpp"
#include "common/base/log.hpp"

namespace offramp {

ExitCode RunOutcome::exit_code(const RunStats& last) const {
    const BrokerReport& broker = last.broker;
    const bool abandoned = stopped == StopMode::Abandon;
    const bool nothing_abandoned = abandoned || last.dropped.samples == last.dropped_when_full.samples;
    if (!broker.conserved() || !nothing_abandoned ||
        last.sourced != last.skipped + last.dropped.samples + broker.published.samples) {
        spdlog::critical(
            "samples are not accounted for: {} sourced, {} skipped, {} dropped ({} of them because no slab was free), "
            "{} published, {} completed, {} in flight, {} spilled, {} dead letters",
            last.sourced, last.skipped, last.dropped.samples, last.dropped_when_full.samples, broker.published.samples,
            broker.completed.samples, broker.in_flight.samples, broker.spilled.samples, broker.dead_lettered.samples);
        return exit_code_for(ErrorKind::CountMismatch);
    }
    const bool input_is_left = last.sourced + done_before < items;
    if (abandoned || (stopped && input_is_left)) return ExitCode::Interrupted;
    return broker.dead_lettered.slabs == 0 ? ExitCode::Ok : ExitCode::DeadLetters;
}

}  // namespace offramp
