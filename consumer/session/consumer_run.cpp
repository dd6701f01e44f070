#include "consumer/session/consumer_run.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <string>

#include "common/base/clock.hpp"
#include "common/base/error.hpp"
#include "common/base/process_watch.hpp"
#include "common/base/version.hpp"
#include "common/shm/run_objects.hpp"
#include "common/shm/shared_region.hpp"
#include "common/tracing/live_trace.hpp"
#include "common/transport/endpoint.hpp"
#include "common/transport/ports.hpp"
#include "common/wire/ledger_layout.hpp"
#include "consumer/session/consumer_session.hpp"
#include "consumer/session/run_views.hpp"

namespace offramp {
namespace {

// A producer removes its memory just before it ends. If it outlives its memory by more than this, it serves no run.
constexpr std::chrono::seconds kLastMoment{5};
constexpr std::chrono::milliseconds kLookEvery{50};

// Two large slabs hide the round trip, so a consumer holds no more than it needs. For small slabs the round trip takes
// longer than the work, so a consumer gets many at a time: at most a quarter of the pool, to keep several consumers
// busy.
constexpr std::uint64_t kLargeSlabBytes = 1 << 20;
constexpr std::uint32_t kWindowOfLargeSlabs = 2;
constexpr std::uint32_t kLargestWindow = 64;

std::uint32_t fitting_window(const LedgerHeader& ledger) {
    return ledger.slab_bytes >= kLargeSlabBytes
               ? kWindowOfLargeSlabs
               : std::clamp(ledger.slab_count / 4, kWindowOfLargeSlabs, kLargestWindow);
}

ConsumerLoop::NextProducer next_producer_of(const ConsumerOptions& options, RunConnection& connection) {
    if (options.memory_per_slab || options.producer_wait <= std::chrono::nanoseconds{}) return {};
    return {.search = &connection, .patience = options.producer_wait};
}

// A run's objects that exist while one of its processes lives.
struct Joined {
    Joined(const ConsumerOptions& options, const RunNames& names)
        : lock(RunLock::hold(names, false)),
          mappings(SlabMappings::attach(
              names, options.memory_per_slab ? SlabMappings::Keeping::PerSlab : SlabMappings::Keeping::AllRun)) {}

    RunLock lock;
    SlabMappings mappings;
};

bool is_of_same_run(const std::optional<Endpoint>& found, const Endpoint& endpoint) {
    return found && found->names.nonce == endpoint.names.nonce;
}

// The producer ended between search and join, for example because it found no work left. The launcher decides what
// follows; without a launcher the run directory does, because a finished run removes its endpoint. Returns true if this
// consumer must end; false if it must join another producer, or cannot.
bool must_end(const Endpoint& endpoint, const WatchedFds& fds, const Clock& clock) {
    const bool has_launcher = fds.lifeline >= 0;
    spdlog::info("the producer of run '{}', process {}, has ended before it let this consumer in",
                 endpoint.names.run_id, endpoint.producer_pid);
    const TimePoint began = clock.now();
    while (!has_input(fds.signals) && !hung_up(fds.lifeline)) {
        const auto found = Endpoint::read(endpoint.run_dir);
        if (!has_launcher && !is_of_same_run(found, endpoint)) return true;
        if (found && (!is_of_same_run(found, endpoint) || found->epoch != endpoint.epoch)) return false;
        const bool lives = process_exists(endpoint.producer_pid);
        if (lives ? clock.now() - began >= kLastMoment : !has_launcher) return false;
        wait_readable(std::array{fds.signals, fds.lifeline}, kLookEvery);
    }
    return true;
}

ConsumerLoop::End dead_producers(const Endpoint& endpoint, const WatchedFds& fds) {
    spdlog::error("the producer of run '{}', process {}, is dead", endpoint.names.run_id, endpoint.producer_pid);
    return {.error = ErrorKind::ProducerGone, .launcher_gone = hung_up(fds.lifeline)};
}

// `admitted`: set once the producer has admitted this consumer.
ConsumerLoop::End serve(const Endpoint& endpoint, const ConsumerOptions& options, const MakeOnEntry& make,
                        bool& admitted) {
    const SteadyClock clock;
    // created first: its end may wait for a disk while no run object is held
    LiveTrace trace(endpoint.run_dir, "consumer", "consumer");
    WatchedFds fds = options.fds;
    std::optional<Joined> joined;
    std::optional<RunConnection> opened;
    std::optional<ProducerSearch::Found> found;
    try {
        joined.emplace(options, endpoint.names);
        opened.emplace(endpoint.run_dir, endpoint.names, joined->mappings.ledger());
        found = opened->look();
    } catch (const Error& problem) {
        if (problem.kind() != ErrorKind::NoSuchRun) throw;
        if (must_end(endpoint, fds, clock)) return {.launcher_gone = hung_up(fds.lifeline)};
        if (fds.lifeline < 0 && !process_exists(endpoint.producer_pid)) return dead_producers(endpoint, fds);
        throw;
    }
    SlabMappings& mappings = joined->mappings;
    RunConnection& connection = *opened;
    const LedgerHeader& ledger = mappings.ledger().header();
    if (!found) {
        if (must_end(endpoint, fds, clock)) return {.launcher_gone = hung_up(fds.lifeline)};
        found = connection.look();
    }
    if (!found) return dead_producers(endpoint, fds);
    fds.producer = found->producer;
    ConsumerSession session(*found->port, clock,
                            {.run_nonce = endpoint.names.nonce,
                             .token = RunNames::random_nonce(),
                             .window = options.window == 0 ? fitting_window(ledger) : options.window,
                             .first_window = 0,
                             .program_version = std::string(program_version()),
                             .work = options.work});
    const MakeOnEntry make_when_in = [&](std::uint32_t consumer_index) -> SlabProcessor& {
        admitted = true;
        return make(consumer_index);
    };
    return ConsumerLoop(
               *found->port, session, mappings, make_when_in, clock, fds, next_producer_of(options, connection),
               [&connection] { return connection.liveness(); }, &trace)
        .run();
}

}  // namespace

// A consumer that ends before its admission held the run's lock, too. If its producer has left meanwhile, no other
// process sweeps the run. A consumer that fails later leaves the same state as a killed one: everything that another
// producer needs to continue, unless another run owns the directory.
ConsumerLoop::End consume_run(const Endpoint& endpoint, const ConsumerOptions& options, const MakeOnEntry& make) {
    bool admitted = false;
    try {
        const ConsumerLoop::End end = serve(endpoint, options, make, admitted);
        if (!admitted) sweep_run(endpoint.names);
        return end;
    } catch (const Error& problem) {
        if (!admitted || problem.kind() == ErrorKind::NoSuchRun) sweep_run(endpoint.names);
        throw;
    } catch (...) {
        if (!admitted) sweep_run(endpoint.names);
        throw;
    }
}

void RunConnection::forget() {
    port_.reset();
    producer_.reset();
}

std::optional<ProducerSearch::Found> RunConnection::look() {
    const auto endpoint = Endpoint::read(run_dir_);
    if (!endpoint) return std::nullopt;
    if (is_other_run(*endpoint))
        throw Error(ErrorKind::NoSuchRun,
                    "the run directory '" + run_dir_ + "' now belongs to another run, '" + endpoint->names.run_id + "'",
                    "The run that this consumer was started for is over; start it again");
    if (endpoint->epoch <= epoch_) return std::nullopt;
    // The ledger has a later epoch than the file while yet another producer recovers the run.
    const LedgerView::Producer producer = ledger_.producer();
    if (producer.pid != endpoint->producer_pid) return std::nullopt;
    auto watched = watch_process(producer.pid, producer.start_time);
    if (!watched) return std::nullopt;
    port_ = make_zmq_consumer_port(*endpoint);
    producer_ = std::move(watched);
    epoch_ = endpoint->epoch;
    return Found{port_.get(), producer_->died.get()};
}

RunLiveness RunConnection::liveness() const {
    try {
        const auto endpoint = Endpoint::read(run_dir_);
        if (!endpoint) return has_memory() ? RunLiveness::Closed : RunLiveness::Over;
        if (is_other_run(*endpoint)) return has_memory() ? RunLiveness::Replaced : RunLiveness::OverAndReplaced;
        return endpoint->epoch > epoch_ ? RunLiveness::TakenOver : RunLiveness::Open;
    } catch (const Error& problem) {
        spdlog::debug("the run's endpoint could not be read: {}", problem.what());
        return RunLiveness::Open;
    }
}

bool RunConnection::is_other_run(const Endpoint& endpoint) const {
    return endpoint.names.run_id != names_.run_id || endpoint.names.nonce != names_.nonce;
}

bool RunConnection::has_memory() const {
    try {
        SharedRegionView::attach(names_.ledger(), SharedRegionView::Access::ReadOnly, sizeof(LedgerHeader));
        return true;
    } catch (const Error& problem) {
        return problem.kind() != ErrorKind::NoSuchRun;
    }
}

}  // namespace offramp
