#pragma once

#include <chrono>
#include <optional>

#include "common/base/clock.hpp"
#include "consumer/session/consumer_session.hpp"
#include "consumer/session/producer_search.hpp"

namespace offramp {

// The steps of a consumer whose producer died, in this order. common/design/recovery.md also has the steps of the next
// producer.
//
//   note_death()      The producer's pidfd is readable. Its earlier messages still count.
//   verdict()         Whether this consumer ends too: if it was leaving, or has nothing left to do and has waited
//                     long enough.
//   detach()          Closes the connection, so that no message for the dead producer reaches the next one. Mappings,
//                     held slabs and unacknowledged releases stay; the consumer continues to process held slabs.
//   look_for_next()   Sends a Hello to a producer of a later epoch, with the earlier session, the held slabs and the
//                     unacknowledged releases (ConsumerSession::meet).
//
// If the next producer dies too, the steps begin again.
//
// Borrows: session, clock, search. Thread: the loop's. Blocks: detach(), see ProducerSearch::forget(). Errors: the
// search's.
class ProducerLoss {
  public:
    static constexpr std::chrono::milliseconds kSearchEvery{50};

    // Without a search, the producer's death ends the consumer. `patience`: how long to wait for another producer if no
    // launcher exists to start one.
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
        EndInOrder,  // it holds no slab of the dead producer
        EndAlone,    // no process is left that could take its held slabs back
    };

    // `has_launcher`: true if a launcher lived when the consumer began.
    ProducerLoss(ConsumerSession& session, const Clock& clock, const NextProducer& next_producer, bool has_launcher)
        : session_(session), clock_(clock), next_producer_(next_producer), has_launcher_(has_launcher) {}

    void note_death();
    // True from the producer's death until the next producer is met.
    bool producer_is_dead() const { return died_at_.has_value(); }
    // True if the death was just detected and no launcher decides what follows: check the run directory for whether the
    // run has ended.
    bool needs_liveness() const { return died_at_ && !detached_ && !has_launcher_; }
    Verdict verdict(const Requests& requests) const;
    // Requires a search. A repeated call does nothing.
    void detach();
    // Call after detach(), at most every kSearchEvery. Returns the next producer, once met.
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
