#include "producer/runner/run/run_ending.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "common/base/clock.hpp"
#include "common/base/error.hpp"
#include "common/base/error_kind.hpp"
#include "common/base/log.hpp"
#include "common/base/trace.hpp"

namespace offramp {
namespace {

constexpr std::chrono::milliseconds kLookEvery{500};

}  // namespace

EndWatch::EndWatch(const EndSignals& signals, int lifeline_fd, RunLifecycle& lifecycle, LauncherLoss& launcher,
                   Beat beat)
    : lifecycle_(lifecycle), launcher_(launcher), beat_(std::move(beat)), stop_(::eventfd(0, EFD_CLOEXEC)) {
    if (!stop_) throw SystemError("eventfd", errno);
    thread_ = std::thread([this, signals_fd = signals.fd(), lifeline_fd] { watch(signals_fd, lifeline_fd); });
}

EndWatch::~EndWatch() {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto put = ::write(stop_.get(), &one, sizeof one);
    thread_.join();
}

void EndWatch::watch(int signals_fd, int lifeline_fd) {
    name_this_thread("end-watch");
    std::array<pollfd, 3> entries{{{stop_.get(), POLLIN, 0}, {signals_fd, POLLIN, 0}, {lifeline_fd, 0, 0}}};
    int signals_seen = 0;
    TimePoint next_beat = kSteadyClock.now() + beat_.interval;
    while (true) {
        const auto to_beat = std::chrono::ceil<std::chrono::milliseconds>(next_beat - kSteadyClock.now());
        const auto patience = std::clamp(to_beat, std::chrono::milliseconds{0}, kLookEvery);
        const int ready = ::poll(entries.data(), entries.size(), static_cast<int>(patience.count()));
        if (ready > 0 && entries[0].revents != 0) return;
        if (ready > 0 && (entries[1].revents & POLLIN) != 0) {
            signalfd_siginfo signal{};
            while (::read(signals_fd, &signal, sizeof signal) == static_cast<ssize_t>(sizeof signal))
                ++signals_seen == 1 ? lifecycle_.stop(StopMode::Drain, "on request")
                                    : lifecycle_.stop(StopMode::Abandon, "second request");
        }
        if (ready > 0 && (entries[2].revents & (POLLHUP | POLLERR | POLLNVAL)) != 0) {
            entries[2].fd = -1;  // reported once
            launcher_.launcher_gone();
        }
        beat_.look();
        const TimePoint now = kSteadyClock.now();
        if (ready == 0 && now < next_beat) continue;
        next_beat = now + beat_.interval;
        try {
            beat_.work();
        } catch (const std::exception& problem) {
            spdlog::warn("cannot update the status file: {}", problem.what());
        }
    }
}

void LauncherLoss::launcher_gone() {
    gone_ = true;
    lifecycle_.stop(StopMode::Drain, "the launcher is gone");
}

void LauncherLoss::no_consumers() {
    // A run that is starting has no consumers yet.
    if (gone_ && lifecycle_.state() != RunState::Starting)
        lifecycle_.stop(StopMode::Abandon, "the launcher and all consumers are gone");
}

bool LauncherLoss::may_be_succeeded() const {
    return !gone_ && lifecycle_.state() != RunState::Ended && !lifecycle_.is_stopped(StopMode::Abandon);
}

ExitCode RunOutcome::exit_code(const RunStats& last) const {
    const BrokerReport& broker = last.broker;
    const bool abandoned = stopped == StopMode::Abandon;
    const bool nothing_abandoned = abandoned || last.dropped.samples == last.dropped_when_full.samples;
    if (!broker.conserved() || !nothing_abandoned || last.sourced != last.accounted()) {
        spdlog::critical(
            "samples are not accounted for: {} sourced, {} skipped, {} dropped ({} of them because no slab was free), "
            "{} published, {} of them dropped while they waited, {} completed, {} in flight, {} spilled, {} dead "
            "letters",
            last.sourced, last.skipped, last.dropped.samples, last.dropped_when_full.samples, broker.published.samples,
            broker.dropped.samples, broker.completed.samples, broker.in_flight.samples, broker.spilled.samples,
            broker.dead_lettered.samples);
        return exit_code_for(ErrorKind::CountMismatch);
    }
    const bool input_is_left = last.sourced + done_before < items;
    if (abandoned || (stopped && input_is_left)) return ExitCode::Interrupted;
    // A slab that one group dropped first counts as dropped, also if it became a dead letter of another.
    const bool has_dead_letters =
        broker.dead_lettered.slabs > 0 || std::ranges::any_of(broker.groups, [](const GroupReport& group) {
            return !group.optional && group.dead_lettered.slabs > 0;
        });
    return has_dead_letters ? ExitCode::DeadLetters : ExitCode::Ok;
}

}  // namespace offramp
