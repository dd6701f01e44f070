#include "consumer/worker/consumer_program.hpp"

#include <fcntl.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <exception>
#include <optional>
#include <string>

#include "common/base/clock.hpp"
#include "common/base/error.hpp"
#include "common/base/process_watch.hpp"
#include "common/base/readiness.hpp"
#include "common/base/scarcity.hpp"
#include "common/base/version.hpp"
#include "common/settings/slab_work.hpp"
#include "common/shm/run_objects.hpp"
#include "common/transport/ports.hpp"
#include "consumer/session/consumer_session.hpp"
#include "consumer/session/run_connection.hpp"
#include "consumer/session/run_search.hpp"
#include "consumer/session/slab_mappings.hpp"

namespace offramp {
namespace {

// A producer removes its memory just before it ends; one that lives on longer than this without it is no run.
constexpr std::chrono::seconds kLastMoment{5};
constexpr std::chrono::milliseconds kLookEvery{50};

// A model may have to be loaded before the run can be attached to.
constexpr std::chrono::seconds kStartPatience{300};

// Of large slabs two hide the round trip, and no consumer sits on more than it works on. Of small ones the round trip takes longer
// than the work, so that a consumer is given many at once; a quarter of the pool, so that several are kept busy.
constexpr std::uint64_t kLargeSlabBytes = 1 << 20;
constexpr std::uint32_t kCreditsOfLargeSlabs = 2;
constexpr std::uint32_t kMostCredits = 64;

std::uint32_t fitting_credits(const LedgerHeader& ledger) {
    return ledger.slab_bytes >= kLargeSlabBytes ? kCreditsOfLargeSlabs
                                                : std::clamp(ledger.slab_count / 4, kCreditsOfLargeSlabs, kMostCredits);
}

void check_lifeline(int fd) {
    if (fd == -1) return;
    if (fd < 0 || ::fcntl(fd, F_SETFD, FD_CLOEXEC) != 0)
        throw ConfigError("--lifeline-fd is " + std::to_string(fd) + ", which is no open file",
                          "The launcher sets it; leave it out when starting a consumer by hand");
}

// Where memory is made anew for every slab, nothing is left to take over (rung `workers`).
ConsumerLoop::Succession succession_of(const RunConfig& config, RunConnection& connection) {
    if (config.rung == "workers" || config.producer_wait_seconds <= 0) return {};
    return {.search = &connection,
            .patience = std::chrono::nanoseconds(static_cast<std::int64_t>(config.producer_wait_seconds * 1e9))};
}

// What of a run is there as long as a process of it lives.
struct Joined {
    Joined(const RunConfig& config, const RunNames& names)
        : lock(RunLock::hold(names, false)),
          mappings(SlabMappings::attach(names, config.rung == "workers" ? SlabMappings::Keeping::PerSlab : SlabMappings::Keeping::AllRun)) {}

    RunLock lock;
    SlabMappings mappings;
};

// The producer came to its end between the look at the run and the joining, as one does that finds nothing left to do. The launcher,
// if there is one, says what follows. True when this consumer is to end; false when it has to join another producer, or cannot.
bool is_told_to_end(const Endpoint& endpoint, const WatchedFds& fds, const Clock& clock) {
    if (fds.lifeline < 0) return false;
    spdlog::info("the producer of run '{}', process {}, has ended before it let this consumer in", endpoint.names.run_id,
                 endpoint.producer_pid);
    const TimePoint began = clock.now();
    while (!has_input(fds.signals) && !hung_up(fds.lifeline)) {
        const auto found = Endpoint::read(endpoint.run_dir);
        if (found && (found->names.nonce != endpoint.names.nonce || found->epoch != endpoint.epoch)) return false;
        if (clock.now() - began >= kLastMoment && process_exists(endpoint.producer_pid)) return false;
        wait_readable(std::array{fds.signals, fds.lifeline}, kLookEvery);
    }
    return true;
}

ConsumerLoop::End attach_and_loop(const RunConfig& config, const Endpoint& endpoint, WatchedFds fds,
                                  const Clock& clock, const MakeOnEntry& make) {
    std::optional<Joined> joined;
    try {
        joined.emplace(config, endpoint.names);
    } catch (const Error& problem) {
        if (problem.exit_code() != ExitCode::NoSuchRun || !is_told_to_end(endpoint, fds, clock)) throw;
        return {.launcher_gone = hung_up(fds.lifeline)};
    }
    SlabMappings& mappings = joined->mappings;
    const LedgerHeader& ledger = mappings.ledger().header();
    RunConnection connection(endpoint.run_dir, endpoint.names, mappings.ledger());
    auto found = connection.look();
    if (!found) {
        if (is_told_to_end(endpoint, fds, clock)) return {.launcher_gone = hung_up(fds.lifeline)};
        found = connection.look();
    }
    if (!found) {
        spdlog::error("the producer of run '{}', process {}, is dead", endpoint.names.run_id,
                      ledger.producer_pid);
        return {.code = ExitCode::ProducerGone, .launcher_gone = hung_up(fds.lifeline)};
    }
    fds.producer = found->producer;
    ConsumerSession session(*found->port, clock,
                            {.run_nonce = endpoint.names.nonce,
                             .window = config.credits == 0 ? fitting_credits(ledger) : config.credits,
                             .first_window = 0,
                             .program_version = std::string(program_version()),
                             .work = SlabWork::of(config).hash()});
    return ConsumerLoop(*found->port, session, mappings, make, clock, fds, succession_of(config, connection)).run();
}

}  // namespace

std::optional<Endpoint> wait_for_run(const RunConfig& told, const EndSignals& signals) {
    if (told.run_dir.empty())
        throw ConfigError("no --run-dir", "Give the directory of the run that this consumer belongs to");
    check_lifeline(told.lifeline_fd);
    const SteadyClock clock;
    return find_run(told.run_dir, {.lifeline = told.lifeline_fd, .signals = signals.fd()}, clock, kStartPatience);
}

int serve_run(const RunConfig& config, const Endpoint& endpoint, const EndSignals& signals, const MakeOnEntry& make) {
    const SteadyClock clock;
    const WatchedFds fds{.lifeline = config.lifeline_fd, .signals = signals.fd()};
    const auto end = attach_and_loop(config, endpoint, fds, clock, make);
    // The own lock is dropped by now: the sweep does something only for the last process of the run.
    if (sweep_run(endpoint.names) && end.launcher_gone)
        spdlog::info("nobody else is left: the shared memory of run '{}' is removed", endpoint.names.run_id);
    return to_int(end.code);
}

int exit_code_of(const std::function<int()>& body) noexcept {
    // Before logging has been started, plain standard error; afterwards in the form that the user chose.
    const auto say = [](const std::string& text) {
        if (spdlog::default_logger()->name().empty())
            std::fprintf(stderr, "offramp-consumer: %s\n", text.c_str());
        else
            spdlog::error("{}", text);
    };
    try {
        try {
            return body();
        } catch (...) {
            std::rethrow_exception(with_limits_named(std::current_exception()));
        }
    } catch (const Error& problem) {
        say(problem.what());
        return to_int(problem.exit_code());
    } catch (const std::exception& problem) {
        say(std::string("unexpected: ") + problem.what());
        return to_int(ExitCode::Internal);
    } catch (...) {
        say("unexpected: an exception of an unknown kind");
        return to_int(ExitCode::Internal);
    }
}

}  // namespace offramp
