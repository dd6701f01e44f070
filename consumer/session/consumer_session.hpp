#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.hpp"
#include "common/transport/ports.hpp"
#include "common/wire/messages.hpp"

namespace offramp {

// Numbers a session's releases from 1 and keeps each until it is acknowledged. Go-back-N: unsent releases are due
// immediately. If the oldest unacknowledged release stays unanswered for `repeat_every`, it and all later ones become
// due again. So each release is accepted exactly once and in order, even if it or its acknowledgement is lost.
//
// Pure: no sockets; the caller passes the time. Thread: one. Blocks: never.
class ReleaseLog {
  public:
    static constexpr std::chrono::milliseconds kRepeatEvery{100};

    // Records that belong in one message.
    struct Batch {
        std::uint64_t first_sequence = 0;
        std::vector<ReleaseRecord> records;
    };

    // Returns the release's number. `why`: for people, if processing failed.
    std::uint64_t add(const SlabTicket& ticket, ReleaseKind kind, std::string why = {});

    // The due releases, at most kMaxTicketsPerMessage records; nothing if none is due.
    std::optional<Batch> due(TimePoint now) const;
    // The caller has handed a batch from due() to the channel.
    void mark_sent(const Batch& batch, TimePoint now);

    // Forgets all releases up to this number. Returns false, and changes nothing, for a number that was never assigned.
    bool acknowledge(std::uint64_t through_sequence, TimePoint now);

    // Renumbers the unacknowledged releases from 1 and marks them unsent, because a new producer has seen none of them.
    void begin_anew();
    // The reasons of failed slabs, by release number.
    const std::map<std::uint64_t, std::string>& reasons() const { return reasons_; }
    // The unacknowledged releases, oldest first.
    const std::deque<ReleaseRecord>& records() const { return records_; }

    // When due() will return a batch without another add(); nothing while every release is acknowledged.
    std::optional<TimePoint> next_due() const;

    std::size_t unacknowledged() const { return records_.size(); }
    // True if some release was never handed to the channel.
    bool has_unsent() const { return highest_sent_ < last_sequence(); }
    std::uint64_t unsent() const { return last_sequence() - highest_sent_; }
    std::uint64_t last_sequence() const { return first_ + records_.size() - 1; }

  private:
    std::uint64_t next_to_send(TimePoint now) const;

    std::deque<ReleaseRecord> records_;             // numbers first_, first_ + 1, ...
    std::map<std::uint64_t, std::string> reasons_;  // for failed slabs only
    std::uint64_t first_ = 1;
    std::uint64_t next_ = 1;  // all lower numbers are sent in this pass
    std::uint64_t highest_sent_ = 0;
    TimePoint repeat_at_{};  // valid while first_ < next_
};

// One consumer's side of the protocol with the producer: announces the consumer, takes deliveries, sends releases until
// they are acknowledged, and disconnects. common/design/wire-protocol.md has the sequence. Stepped: it never waits,
// holds no thread and reads no memory.
//
// The session survives its producer: see lose_producer(), which ProducerLoss calls.
//
// Borrows: port and clock. Thread: one. Blocks: never. Errors: ProtocolError when continuing could lose a batch: a
// delivery is missing, deliveries exceed the window, or the producer speaks another version. It counts and ignores
// messages that are repeated, unreadable or from another session.
class ConsumerSession {
  public:
    struct Options {
        std::uint64_t run_nonce = 0;
        std::uint64_t token = 0;   // random; a producer that recovers the run recognizes the session by it
        std::uint32_t window = 2;  // slabs held at a time; at least 1
        std::optional<std::uint32_t> first_window{};  // window until open(); unset: `window`
        std::string program_version;
        std::uint64_t work = 0;  // identifies how the consumer processes slabs (SlabWork::hash)
    };
    enum class State {
        Greeting,  // Hello is on its way or awaits its answer
        Serving,   // welcomed
        Draining,  // the producer or the consumer asked: takes no more slabs, gives back those it holds
        Ended,     // disconnected
        Refused,   // see refusal()
    };
    struct Refusal {
        RefusalReason reason{};
        std::string text;
    };
    struct Counts {
        std::uint64_t unreadable = 0;  // could not be parsed
        std::uint64_t other_run = 0;
        std::uint64_t other_session = 0;
        std::uint64_t repeated = 0;      // deliveries received before
        std::uint64_t out_of_place = 0;  // the type or the session's state rules this message out
    };

    ConsumerSession(ConsumerPort& port, const Clock& clock, const Options& options);

    // Reads every waiting message and sends what is due. Call it often, and before every wait.
    void step();
    // The second half of step(). It is cheap: call it between two short slabs.
    void send_due();

    // Without a Welcome this long after its answer to a Challenge, the session announces itself again: the producer
    // forgets a consumer that answers late because it was stopped or processed a long slab.
    static constexpr std::chrono::seconds kHelloAgain{2};

    // Ready for slabs: opens the full window. Call once, when welcomed.
    void open();
    // The next slab to work on, which is held until release(). Nothing when there is none.
    std::optional<SlabTicket> take();
    // Releases a slab that take() returned. `busy`: the time spent on it. step() sends the release, or holds it back to
    // combine it with the next ones. It holds releases back only while slabs are pending, less than kHoldBack was spent
    // on the unsent ones, and they are fewer than a quarter of the window.
    void release(const SlabTicket& ticket, ReleaseKind kind, std::chrono::nanoseconds busy = kHoldBack);
    // Releases a slab whose processing failed. `kind`: Failed or Rejected. `why`: for people.
    void release_failed(const SlabTicket& ticket, ReleaseKind kind, std::string why);
    static constexpr std::chrono::microseconds kHoldBack{200};
    // The producer is dead: the session sends and receives nothing until meet(). Held slabs may be processed and
    // released meanwhile.
    void lose_producer();
    // Announces the session to the producer that recovered the run, with its held slabs and unacknowledged releases.
    // The session continues, with new numbers, when that producer's Welcome arrives. `port` must live until the session
    // ends or the next lose_producer().
    void meet(ConsumerPort& port);

    // Ends the session in order, at the consumer's request: it takes no more deliveries and returns those not begun.
    // May be called again.
    void leave();
    // leave() after an error: also returns slabs from take() without a loan. Do not read any slab after this call.
    void abandon();

    State state() const { return state_; }
    // True from lose_producer() to the next producer's Welcome.
    bool away() const { return away_; }
    // True once Welcome has arrived; session, consumer index and epoch are in welcome().
    bool welcomed() const { return welcome_.session != 0; }
    const Welcome& welcome() const { return welcome_; }
    const Refusal& refusal() const { return refusal_; }
    const Counts& counts() const { return counts_; }

    // True if a delivered slab has not been begun.
    bool has_pending() const { return !pending_.empty(); }
    // False while a due release or another message waits for room in the channel.
    bool all_sent() const { return away_ || (outgoing_.empty() && (!releases_.has_unsent() || may_hold_back())); }
    // True if it holds no slab and the producer has acknowledged that.
    bool settled() const { return pending_.empty() && held_.empty() && releases_.unacknowledged() == 0; }
    // How long the caller may wait for the port before it must call step().
    std::chrono::nanoseconds until_due() const;

  private:
    void receive(const Bytes& bytes);
    void on_challenge(const Challenge& challenge);
    void on_welcome(const Welcome& welcome);
    void on_refused(const Refused& refused);
    void on_tickets(const Tickets& tickets, const std::vector<SlabTicket>& records);
    void on_ack(const ReleaseAck& ack);
    void on_drain(const Drain& drain);
    bool is_current_session(std::uint64_t session);
    void return_pending();
    bool may_hold_back() const;
    void queue_release(const SlabTicket& ticket, ReleaseKind kind, std::string why = {});
    void send_releases();
    bool send_reasons(const ReleaseLog::Batch& batch);
    void try_disconnect();
    void repeat_hello();

    template <class Body>
    Bytes message(const Body& body) const {
        return encode(options_.run_nonce, body);
    }
    Bytes hello() const;
    std::uint32_t window() const { return opened_ ? options_.window : options_.first_window.value_or(options_.window); }

    ConsumerPort* port_;  // null while the producer is dead
    const Clock* clock_;
    Options options_;
    std::uint32_t most_held_back_;  // most releases in one message while slabs are pending
    State state_ = State::Greeting;
    Welcome welcome_{};
    Refusal refusal_;
    bool opened_ = false;
    bool away_ = false;
    std::optional<TimePoint> answered_at_;  // until the next Hello, or the producer's death
    bool returns_new_ = false;              // returns new deliveries unopened
    bool disconnect_queued_ = false;
    Counts counts_;
    std::uint64_t last_delivery_ = 0;
    std::deque<SlabTicket> pending_;  // delivered, not begun
    std::vector<SlabTicket> held_;    // returned by take()
    ReleaseLog releases_;
    std::chrono::nanoseconds unsent_busy_{};  // time spent on the slabs whose releases are held back
    std::deque<Bytes> outgoing_;              // for the work channel, in order
};

}  // namespace offramp
