#include "consumer/session/consumer_loop.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <exception>
#include <string>
#include <utility>

#include "common/base/error.hpp"
#include "common/base/failpoint.hpp"
#include "common/base/process_watch.hpp"
#include "common/base/trace.hpp"
#include "consumer/session/read_loan.hpp"

namespace offramp {

ConsumerLoop::ConsumerLoop(ConsumerPort& port, ConsumerSession& session, SlabMappings& mappings,
                           const MakeOnEntry& make, const Clock& clock, const WatchedFds& fds,
                           const NextProducer& next_producer, ObserveRun observe_run, LiveTrace* trace)
    : port_(&port),
      session_(&session),
      mappings_(&mappings),
      make_(make),
      clock_(&clock),
      fds_(fds),
      observe_run_(std::move(observe_run)),
      observed_run_(clock.now()),
      trace_(trace),
      progress_([this] { heartbeat_->progress(); }),
      still_current_([this] {
          overtaken_ = overtaken_ || !mappings_->ledger().may_complete(current_);
          return !overtaken_;
      }),
      loss_(session, clock, next_producer, fds.lifeline >= 0) {}

ConsumerLoop::End ConsumerLoop::run() {
    try {
        while (true) {
            if (const auto end = turn()) return *end;
            if (idle_) wait();
        }
    } catch (...) {
        abandon();
        throw;
    }
}

// This process may live on, so its death would not return the slabs. A dead producer cannot take any back.
void ConsumerLoop::abandon() noexcept {
    try {
        abandoned_ = true;
        mappings_->unmap_slabs();
        session_->abandon();
        while (!session_->away() && session_->state() != ConsumerSession::State::Refused && !turn())
            if (idle_) wait();
    } catch (...) {
        spdlog::error("this consumer ends without returning its slabs: {}", exception_text(std::current_exception()));
    }
}

std::optional<ConsumerLoop::End> ConsumerLoop::turn() {
    now_ = clock_->now();
    if (idle_ || !session_->has_pending() || now_ - looked_at_ >= kLookEvery) {
        looked_at_ = now_;
        look_at_fds();
        look_for_producer();
        if (trace_ != nullptr && !abandoned_) trace_->look(now_);
        session_->step();
        if (auto end = end_if_run_is_over()) return end;
        if (auto end = end_if_over()) return end;
    }
    idle_ = true;
    if (!session_->welcomed() || abandoned_) return std::nullopt;
    if (!heartbeat_) begin_session();
    // Send releases now: the next slab may keep this thread busy for long, and finished slabs must be free before.
    if (!session_->all_sent()) return std::nullopt;
    if (const auto ticket = session_->take()) {
        work_on(*ticket);
        session_->send_due();
        idle_ = false;
    } else if (mappings_->map_next()) {
        idle_ = false;
    }
    return std::nullopt;
}

void ConsumerLoop::look_at_fds() {
    if (has_input(fds_.signals)) {
        spdlog::info("asked to end: finishing the slab at hand, returning the others");
        fds_.signals = -1;
        asked_to_end_ = true;
        session_->leave();
    }
    if (hung_up(fds_.lifeline)) {
        spdlog::info("the process that started this consumer has ended: ending");
        fds_.lifeline = -1;
        launcher_gone_since_ = clock_->now();
        session_->leave();
    }
    if (has_input(fds_.producer)) {
        fds_.producer = -1;
        loss_.note_death();
    }
}

void ConsumerLoop::look_for_producer() {
    const auto found = loss_.look_for_next();
    if (!found) return;
    port_ = found->port;
    fds_.producer = found->producer;
    observed_run_ = now_;
}

// A slow or stopped producer keeps endpoint and memory; a killed one leaves its endpoint.
std::optional<ConsumerLoop::End> ConsumerLoop::end_if_run_is_over() {
    const bool just_died = loss_.needs_liveness();
    if (!observe_run_ || session_->has_pending()) return std::nullopt;
    if (!just_died && (loss_.producer_is_dead() || now_ - observed_run_ < kObserveRunEvery)) return std::nullopt;
    observed_run_ = now_;
    const RunLiveness liveness = observe_run_();
    if (liveness == RunLiveness::Open) return std::nullopt;
    using State = ConsumerSession::State;
    if (liveness == RunLiveness::TakenOver) {  // an admitted consumer relies on the pidfd
        if (just_died || session_->state() != State::Greeting) return std::nullopt;
        fds_.producer = -1;
        loss_.note_death();
        return std::nullopt;
    }
    session_->step();  // earlier messages still count
    const State state = session_->state();
    if (state == State::Ended || state == State::Refused) return std::nullopt;
    if (just_died && is_replaced(liveness)) {
        if (asked_to_end_ || state == State::Draining) return std::nullopt;  // it ends with its producer
        throw Error(ErrorKind::NoSuchRun, "the producer is dead, and another run uses its directory now",
                    "The run that this consumer was started for is over; start it again");
    }
    if (may_be_served(liveness) && state != State::Greeting && !just_died) return std::nullopt;
    const bool launcher_gone = launcher_gone_since_.has_value();
    if (!session_->settled()) {
        spdlog::error("the run is over, and its producer did not take back this consumer's slabs");
        return End{.error = ErrorKind::ProducerGone, .launcher_gone = launcher_gone};
    }
    spdlog::info("the run is over: {}", state == State::Greeting ? "it was closed before it let this consumer in"
                                                                 : "this consumer holds none of its slabs");
    return End{.error = error_, .launcher_gone = launcher_gone};
}

std::optional<ConsumerLoop::End> ConsumerLoop::end_if_over() {
    if (session_->state() == ConsumerSession::State::Refused) return refused_end();
    const bool launcher_gone = launcher_gone_since_.has_value();
    if (session_->state() == ConsumerSession::State::Ended) return End{.error = error_, .launcher_gone = launcher_gone};
    if (loss_.producer_is_dead()) {
        if (auto end = end_with_producer()) return end;
        loss_.detach();
        port_ = nullptr;
    }
    if (launcher_gone && clock_->now() - *launcher_gone_since_ >= kOrphanPatience) {
        spdlog::warn(
            "the process that started this consumer has ended, and the producer does not answer: exiting without a "
            "disconnect");
        return End{.error = error_, .launcher_gone = true};
    }
    return std::nullopt;
}

std::optional<ConsumerLoop::End> ConsumerLoop::end_with_producer() {
    const bool launcher_gone = launcher_gone_since_.has_value();
    switch (loss_.verdict({.asked_to_end = asked_to_end_, .launcher_gone = launcher_gone})) {
        case ProducerLoss::Verdict::Continue:
            break;
        case ProducerLoss::Verdict::EndInOrder:
            return End{.error = error_, .launcher_gone = launcher_gone};
        case ProducerLoss::Verdict::EndAlone:
            return End{.error = ErrorKind::ProducerGone, .launcher_gone = launcher_gone};
    }
    return std::nullopt;
}

std::optional<ConsumerLoop::End> ConsumerLoop::refused_end() const {
    const ConsumerSession::Refusal& refusal = session_->refusal();
    switch (refusal.reason) {
        case RefusalReason::Ended: {
            spdlog::info("the run takes no more consumers: {}", refusal.text);
            return End{};
        }
        case RefusalReason::Nonce:
            throw Error(ErrorKind::NoSuchRun, "the producer refused this consumer: " + refusal.text,
                        "The run that it was started for is over; start it again");
        case RefusalReason::User:
        case RefusalReason::ForeignProcess:
            throw Error(ErrorKind::NotPermitted, "the producer refused this consumer: " + refusal.text);
        case RefusalReason::Full:
            throw Error(ErrorKind::NoSuchRun, "the producer refused this consumer: " + refusal.text,
                        "Start fewer consumers");
        case RefusalReason::Work:
            throw ConfigError("the producer refused this consumer: " + refusal.text,
                              "Start it with the run's settings. A custom consumer without settings reads only runs "
                              "that a custom program began");
        case RefusalReason::Version:
            break;
    }
    throw ProtocolError("the producer refused this consumer: " + refusal.text,
                        "Start producer and consumers of one build");
}

void ConsumerLoop::begin_session() {
    const Welcome& welcome = session_->welcome();
    const std::uint32_t capacity = mappings_->ledger().header().consumer_capacity;
    if (welcome.consumer_index >= capacity)
        throw ProtocolError("the producer gave this consumer the index " + std::to_string(welcome.consumer_index) +
                            ", but the ledger has only " + std::to_string(capacity));
    // Never write another consumer's heartbeat record: its death would count against the wrong slab.
    if (const std::uint64_t session = mappings_->ledger().session_in(welcome.consumer_index);
        session != welcome.session)
        throw ProtocolError("the ledger's consumer index " + std::to_string(welcome.consumer_index) +
                            " belongs to session " + std::to_string(session) + ", not to this consumer's " +
                            std::to_string(welcome.session));
    heartbeat_.emplace(mappings_->heartbeat(welcome.consumer_index), welcome.session);
    spdlog::info("session {} has consumer index {}", admission_of(welcome.session), welcome.consumer_index);
    try {
        processor_ = &make_(welcome.consumer_index);
    } catch (const Error& problem) {
        if (problem.kind() != ErrorKind::SinkUnavailable) throw;
        return note_sink_unreachable(problem);
    }
    session_->open();
}

void ConsumerLoop::note_sink_unreachable(const Error& problem) {
    spdlog::error("{}", problem.what());
    error_ = ErrorKind::SinkUnavailable;
    session_->leave();
}

void ConsumerLoop::work_on(const SlabTicket& ticket) {
    // Its visibility timeout expired while it waited here, and another consumer has it: reading it would waste work.
    if (!mappings_->ledger().is_current(ticket)) {
        session_->release(ticket, ReleaseKind::Returned);
        return;
    }
    failpoint("consumer.ticket_taken");
    current_ = ticket;
    overtaken_ = false;
    ReadLoan loan = ReadLoan::open(ticket, *mappings_, *heartbeat_, *session_, contents_);
    const SlabContents& slab = loan.contents();
    const std::uint64_t batch = slab.batches.empty() ? 0 : slab.batches.front().batch;
    if (recording()) record_range("hand_over", batch, slab.filled_at_ns, now_ns());
    try {
        const TraceRange range(TraceName::ProcessOutput, batch);
        processor_->process(slab, progress_, still_current_);
    } catch (const SlabFailed& problem) {
        spdlog::error("batch {} failed: {}", batch, problem.what());
        std::move(loan).fail(problem.release(), problem.what());
        if (!problem.ends_consumer()) return;
        error_ = problem.kind();
        return session_->leave();
    } catch (const Error& problem) {
        if (problem.kind() != ErrorKind::SinkUnavailable) {
            std::move(loan).fail(ReleaseKind::Failed, problem.what());
            throw;
        }
        std::move(loan).give_back();
        return note_sink_unreachable(problem);
    } catch (...) {
        std::move(loan).fail(ReleaseKind::Failed, exception_text(std::current_exception()));
        throw;
    }
    failpoint("consumer.committed");
    mappings_->done_with(ticket.slab);
    // A processor whose delivery was superseded may not have committed, so do not complete the slab.
    if (overtaken_)
        std::move(loan).give_back();
    else
        std::move(loan).complete(clock_->now() - now_);
}

void ConsumerLoop::wait() {
    std::vector<int> fds;
    for (const int fd : {fds_.producer, fds_.lifeline, fds_.signals})
        if (fd >= 0) fds.push_back(fd);
    auto timeout = session_->until_due();
    if (launcher_gone_since_)
        timeout = std::min<std::chrono::nanoseconds>(timeout, *launcher_gone_since_ + kOrphanPatience - clock_->now());
    timeout = std::max(timeout, std::chrono::nanoseconds{0});
    if (port_ != nullptr)
        port_->wait(fds, timeout);
    else
        wait_readable(fds, std::min<std::chrono::nanoseconds>(timeout, ProducerLoss::kSearchEvery));
}

}  // namespace offramp
