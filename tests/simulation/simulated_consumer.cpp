#include "tests/simulation/simulated_consumer.hpp"

#include <algorithm>

#include "common/base/failpoint.hpp"

namespace offramp::simulation {

SimulatedConsumer::SimulatedConsumer(SimulatedRun& run, std::uint32_t group, pid_t pid)
    : run_(run),
      group_(group),
      pid_(pid),
      met_epoch_(run.epoch()),
      link_(run.connect(pid, group)),
      port_(std::make_unique<SimulatedPort>(link_, run.twin())),
      session_(*port_, run.clock(),
               {.run_nonce = run.mappings(group).ledger().header().run_nonce,
                .token = static_cast<std::uint64_t>(pid) + 1,
                .window = run.setup().window,
                .first_window = run.setup().opens_late ? std::optional<std::uint32_t>(0) : std::nullopt,
                .program_version = "simulated"}),
      loss_(session_, run.clock(), {.search = this}, true),
      last_sign_(run.clock().now()) {}

bool SimulatedConsumer::turn() {
    if (!death_noted_ && (!run_.has_producer() || run_.epoch() != met_epoch_) && !run_.closed()) {
        death_noted_ = true;
        loss_.note_death();
    }
    if (loss_.look_for_next()) death_noted_ = false;
    session_.step();
    if (end_if_over()) return true;
    if (session_.welcomed() && !heartbeat_) begin_session();
    return false;
}

bool SimulatedConsumer::end_if_over() {
    using State = ConsumerSession::State;
    if (session_.state() == State::Refused) {
        if (session_.refusal().reason != RefusalReason::Ended)
            throw Violation(name() + " is refused: " + session_.refusal().text);
        return true;
    }
    if (session_.state() == State::Ended) return true;
    if (run_.closed() && !session_.has_pending()) {
        if (!session_.settled() && !run_.closed_early())
            throw Violation(name() + " still holds slabs when the run has ended");
        return true;
    }
    if (!loss_.producer_is_dead()) return false;
    if (loss_.verdict({.asked_to_end = asked_to_end_, .launcher_gone = false}) != ProducerLoss::Verdict::Continue)
        return true;
    loss_.detach();
    return false;
}

void SimulatedConsumer::begin_session() {
    const Welcome& welcome = session_.welcome();
    if (mappings().ledger().session_in(welcome.consumer_index) != welcome.session)
        throw Violation(name() + " was welcomed under an index that belongs to another session");
    heartbeat_.emplace(mappings().heartbeat(welcome.consumer_index), welcome.session);
    session_.open();
}

void SimulatedConsumer::take() {
    if (!heartbeat_ || reading_ || !session_.all_sent()) return;
    const auto ticket = session_.take();
    if (!ticket) return;
    if (!mappings().ledger().is_current(*ticket)) {
        session_.release(*ticket, ReleaseKind::Returned);
        return session_.send_due();
    }
    failpoint("consumer.ticket_taken");
    run_.note_delivery(group_, *ticket);
    ticket_ = *ticket;
    note_sign();
    loan_.emplace(ReadLoan::open(ticket_, mappings(), *heartbeat_, session_, contents_));
    batch_ = contents_.batches.front().batch;
    reading_ = true;
    if (run_.traces())
        run_.say(name() + " begins slab " + std::to_string(ticket_.slab) + ", batch " + std::to_string(batch_));
    run_.check_bytes(ticket_.slab, batch_, name());
    if (run_.twin() == Twin::ReadsAfterRelease) {
        ++share().commits;
        std::move(*loan_).complete({});
        session_.send_due();
    }
}

void SimulatedConsumer::progress() {
    if (!reading_) return;
    heartbeat_->progress();
    note_sign();
}

// `how`: mostly a completion.
void SimulatedConsumer::finish(std::uint32_t how) {
    if (!reading_) return;
    run_.check_bytes(ticket_.slab, batch_, name());
    note_sign();
    if (run_.twin() == Twin::ReadsAfterRelease) {
        reading_ = false;
        return loan_.reset();
    }
    const std::uint32_t kind = how % 16;
    GroupShare& batch = share();
    if (kind == 0) {
        ++batch.blame;
        std::move(*loan_).fail(ReleaseKind::Failed, "a reason\nof two lines");
    } else if (kind == 1 && how % 64 < 16) {
        batch.rejected = true;
        std::move(*loan_).fail(ReleaseKind::Rejected, "another reason");
    } else if (kind == 2 || !mappings().ledger().may_complete(ticket_)) {
        std::move(*loan_).give_back();
    } else {
        if (run_.twin() != Twin::CompletesUnprocessed) ++batch.commits;
        failpoint("consumer.committed");
        std::move(*loan_).complete(std::chrono::microseconds(how % 32 < 16 ? 0 : 500));
    }
    reading_ = false;
    loan_.reset();
    session_.send_due();
}

void SimulatedConsumer::leave() {
    asked_to_end_ = true;
    session_.leave();
}

void SimulatedConsumer::forget() {
    port_.reset();
    if (link_) link_->orphan(0, 0);
    link_.reset();
}

std::optional<ProducerSearch::Found> SimulatedConsumer::look() {
    if (!run_.has_producer() || run_.epoch() <= met_epoch_) return std::nullopt;
    met_epoch_ = run_.epoch();
    link_ = run_.connect(pid_, group_);
    port_ = std::make_unique<SimulatedPort>(link_, run_.twin());
    ++run_.counts().returned_consumers;
    return Found{.port = port_.get()};
}

// Until it has disconnected, its place in the ledger and its place among the holders of the slab that it reads are its
// own, and the bytes of that slab stay.
void SimulatedConsumer::check() const {
    using State = ConsumerSession::State;
    if (session_.welcomed() && session_.state() != State::Ended && session_.state() != State::Refused &&
        mappings().ledger().session_in(session_.welcome().consumer_index) != session_.welcome().session)
        throw Violation(name() + " lives, and its session is over");
    if (!reading_) return;
    run_.check_bytes(ticket_.slab, batch_, name());
    const SlabWord word = mappings().ledger().slab_word(ticket_.slab);
    if (word.generation != ticket_.generation || word.state == SlabState::Free || word.state == SlabState::Filling)
        throw Violation(name() + " reads slab " + std::to_string(ticket_.slab) + ", which was freed");
}

std::optional<std::uint32_t> SimulatedConsumer::index() const {
    if (!heartbeat_) return std::nullopt;
    return session_.welcome().consumer_index;
}

void SimulatedConsumer::blame() const {
    if (!heartbeat_) return;
    const std::uint64_t work = load_word(mappings().heartbeat(session_.welcome().consumer_index).work);
    const auto batch = run_.batch_in(ticket_.slab, ticket_.generation);
    if (work != 0 && batch) ++run_.share(group_, *batch).blame;
}

std::string SimulatedConsumer::describe() const {
    static constexpr const char* kStates[] = {"greeting", "serving", "draining", "ended", "refused"};
    return name() + ": " + kStates[static_cast<std::size_t>(session_.state())] + (session_.away() ? ", away" : "") +
           (session_.settled() ? "" : ", not settled") + (reading_ ? ", reading" : "") + (stopped ? ", stopped" : "");
}

}  // namespace offramp::simulation
