#pragma once

#include <chrono>
#include <functional>
#include <optional>

#include "common/base/clock.hpp"
#include "common/transport/ports.hpp"
#include "consumer/session/consumer_session.hpp"

namespace offramp {

// Finds the producer that recovers a dead producer's run. An interface, so that tests can restart a producer as a
// thread. Owns: the connection that look() returned. Thread: one. Blocks: never, except forget(), for at most a second
// while last messages leave.
class ProducerSearch {
  public:
    struct Found {
        ConsumerPort* port = nullptr;
        int producer = -1;  // a pidfd
    };

    virtual ~ProducerSearch() = default;
    // Closes the connection to a dead producer, so that none of its messages reaches the next one.
    virtual void forget() = 0;
    // A live producer of the same run, of a later epoch than the last one found. Nothing when there is none yet.
    // Errors: NoSuchRun when another run now owns the run directory.
    virtual std::optional<Found> look() = 0;
};

// The consumer's run, as the run directory shows it.
enum class RunLiveness {
    Open,             // the producer that was met takes consumers, as far as known
    TakenOver,        // a producer of a later epoch has published its endpoint
    Closed,           // the endpoint is gone; admitted consumers are still served
    Over,             // closed, and its memory is removed: no producer is left
    Replaced,         // like Closed, and another run has published its endpoint
    OverAndReplaced,  // like Over, and another run has published its endpoint
};

inline bool is_replaced(RunLiveness liveness) {
    return liveness == RunLiveness::Replaced || liveness == RunLiveness::OverAndReplaced;
}
inline bool may_be_served(RunLiveness liveness) {
    return liveness == RunLiveness::Closed || liveness == RunLiveness::Replaced;
}

using ObserveRun = std::function<RunLiveness()>;

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
