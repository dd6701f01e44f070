#pragma once

#include <chrono>
#include <optional>

#include "common/base/clock.hpp"
#include "consumer/session/consumer_session.hpp"
#include "consumer/session/producer_search.hpp"

namespace offramp {

// Steps of a consumer whose producer died: all of them, in this order. common/design/recovery.md also has the steps
// of the next producer.
//
//   note_death()      Its pidfd is readable. Its earlier messages still count.
//   verdict()         Whether this consumer ends with it: if it was leaving, or has nothing left to do and has waited
//                     for long enough.
//   detach()          The connection goes, so that nothing meant for the dead reaches the next. Mappings, held slabs
//                     and unacknowledged releases stay; held slabs are worked on.
//   look_for_next()   A producer of a later epoch is met with a Hello: the session that this was, what it holds, what
//                     it has released without an acknowledgement (ConsumerSession::meet).
//
// The next producer may die, too: then this begins again.
//
// Borrows: session, clock, search. Thread: the loop's. Blocks: detach(), see ProducerSearch::forget(). Errors: the
// search's.
class ProducerLoss {
  public:
    static constexpr std::chrono::milliseconds kSearchEvery{50};

    // Without a search a producer's death is the end. `patience`: how long it is waited for another producer where no
    // launcher is there that would start it.
    struct NextProducer {
        ProducerSearch* search = nullptr;
        std::chrono::nanoseconds patience{};
    };
    struct Requests {
        bool asked_to_end = false;
        bool launcher_gone = false;
    };
    enum class Verdict {
        Continue,
        EndInOrder,  // nothing of the dead producer is held
        EndAlone,    // no process is left to return held slabs to
    };

    // `has_launcher`: when the consumer began.
    ProducerLoss(ConsumerSession& session, const Clock& clock, const NextProducer& next_producer, bool has_launcher)
        : session_(session), clock_(clock), next_producer_(next_producer), has_launcher_(has_launcher) {}

    void note_death();
    // From its death to the next producer's coming.
    bool producer_is_dead() const { return died_at_.has_value(); }
    // The death was just detected, and no launcher decides what follows: the run directory shows whether the run has
    // ended.
    bool needs_liveness() const { return died_at_ && !detached_ && !has_launcher_; }
    Verdict verdict(const Requests& requests) const;
    // Only with a search. Does nothing when it is called again.
    void detach();
    // After detach(), at most every kSearchEvery: the next producer, met.
    std::optional<ProducerSearch::Found> look_for_next();

  private:
    ConsumerSession& session_;
    const Clock& clock_;
    const NextProducer next_producer_;
    const bool has_launcher_;
    std::optional<TimePoint> died_at_;
    bool detached_ = false;
    TimePoint searched_at_{};
};

}  // namespace offramp
