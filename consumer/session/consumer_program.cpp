#include "consumer/session/consumer_program.hpp"

#include <fcntl.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <exception>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

#include "common/base/clock.hpp"
#include "common/base/error.hpp"
#include "common/base/readiness.hpp"
#include "common/base/scarcity.hpp"
#include "common/base/version.hpp"
#include "common/config/slab_work.hpp"
#include "common/shm/run_objects.hpp"
#include "common/transport/endpoint.hpp"
#include "common/transport/ports.hpp"
#include "consumer/session/consumer_loop.hpp"
#include "consumer/session/consumer_session.hpp"
#include "consumer/session/run_connection.hpp"
#include "consumer/session/run_search.hpp"
#include "consumer/session/slab_mappings.hpp"

namespace offramp {
namespace {

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

// The run has been asked, and wants other work. Errors: ConfigError names what differs, if the run's settings can be read.
void refuse_work(const SlabWork& work, const std::string& run_dir) {
    const std::string path = run_dir + "/producer-settings.toml";
    std::ifstream file(path);
    std::ostringstream text;
    if (!file || !(text << file.rdbuf())) return;
    const std::string difference = work.difference_from(SlabWork::of_settings(text.str(), path));
    if (difference.empty()) return;
    throw ConfigError("this consumer's results would not be those of the run in " + run_dir + ": " + difference,
                      "Give it the run's own settings, which stand in " + path);
}

ConsumerLoop::End attach_and_loop(const RunConfig& config, const Endpoint& endpoint, WatchedFds fds,
                                  const Clock& clock, Processor& processor) {
    const RunLock lock = RunLock::hold(endpoint.names, false);
    SlabMappings mappings = SlabMappings::attach(
        endpoint.names, config.rung == "workers" ? SlabMappings::Keeping::PerSlab : SlabMappings::Keeping::AllRun);
    const LedgerHeader& ledger = mappings.ledger().header();
    RunConnection connection(endpoint.run_dir, endpoint.names, mappings.ledger());
    const auto found = connection.look();
    if (!found) {
        spdlog::error("the producer of run '{}', process {}, is dead", endpoint.names.run_id,
                      ledger.producer_pid);
        return {.code = ExitCode::ProducerGone, .launcher_gone = hung_up(fds.lifeline)};
    }
    fds.producer = found->producer;
    const SlabWork work = SlabWork::of(config);
    ConsumerSession session(*found->port, clock,
                            {.run_nonce = endpoint.names.nonce,
                             .window = config.credits == 0 ? fitting_credits(ledger) : config.credits,
                             .program_version = std::string(program_version()),
                             .work = work.hash()});
    try {
        return ConsumerLoop(*found->port, session, mappings, processor, clock, fds, succession_of(config, connection)).run();
    } catch (const ConfigError&) {
        if (session.state() == ConsumerSession::State::Refused && session.refusal().reason == RefusalReason::Work)
            refuse_work(work, endpoint.run_dir);
        throw;
    }
}

}  // namespace

int serve_run(const RunConfig& config, const EndSignals& signals, Processor& processor) {
    if (config.run_dir.empty())
        throw ConfigError("no --run-dir", "Give the directory of the run that this consumer belongs to");
    check_lifeline(config.lifeline_fd);

    const SteadyClock clock;
    const WatchedFds fds{.lifeline = config.lifeline_fd, .signals = signals.fd()};
    const auto endpoint = find_run(config.run_dir, fds, clock, kStartPatience);
    if (!endpoint) return to_int(ExitCode::Ok);

    const auto end = attach_and_loop(config, *endpoint, fds, clock, processor);
    // The own lock is dropped by now: the sweep does something only for the last process of the run.
    if (sweep_run(endpoint->names) && end.launcher_gone)
        spdlog::info("nobody else is left: the shared memory of run '{}' is removed", endpoint->names.run_id);
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
