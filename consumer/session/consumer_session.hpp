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

// Numbers a session's releases from 1 and keeps each until it is acknowledged. Go-back-N: what was never sent is due
// immediately; when the oldest unacknowledged one has been sent and not been answered for `repeat_every`, everything
// from it on is due again. A release that is lost, or whose acknowledgement is lost, is therefore taken exactly once
// and in order.
//
// Pure: no sockets; time is handed in. Thread: one. Blocks: never.
class ReleaseLog {
  public:
    static constexpr std::chrono::milliseconds kRepeatEvery{100};

    // Records that belong into one message.
    struct Batch {
        std::uint64_t first_sequence = 0;
        std::vector<ReleaseRecord> records;
    };

    // Returns the release's number. `why`: of one that failed, for people.
    std::uint64_t add(const SlabTicket& ticket, ReleaseKind kind, std::string why = {});

    // The due releases, at most kMaxTicketsPerMessage records; nothing if none is due.
    std::optional<Batch> due(TimePoint now) const;
    // A batch from due() was handed to the channel.
    void mark_sent(const Batch& batch, TimePoint now);

    // Forgets all releases up to this number. False, and nothing changed, for a number that was never given.
    bool acknowledge(std::uint64_t through_sequence, TimePoint now);

    // Numbers what is unacknowledged from 1 again, as never sent: a new producer has seen none of it.
    void begin_anew();
    // Why those failed that did, by number.
    const std::map<std::uint64_t, std::string>& reasons() const { return reasons_; }
    // The unacknowledged releases, oldest first.
    const std::deque<ReleaseRecord>& records() const { return records_; }

    // When due() will give something without a further add(); nothing while nothing is unacknowledged.
    std::optional<TimePoint> next_due() const;

    std::size_t unacknowledged() const { return records_.size(); }
    // Whether some release was never handed to the channel.
    bool has_unsent() const { return highest_sent_ < last_sequence(); }
    std::uint64_t unsent() const { return last_sequence() - highest_sent_; }
    std::uint64_t last_sequence() const { return first_ + records_.size() - 1; }

  private:
    std::uint64_t next_to_send(TimePoint now) const;

    std::deque<ReleaseRecord> records_;             // numbers first_, first_ + 1, ...
    std::map<std::uint64_t, std::string> reasons_;  // of some of them
    std::uint64_t first_ = 1;
    std::uint64_t next_ = 1;  // sent up to here since the last going back
    std::uint64_t highest_sent_ = 0;
    TimePoint repeat_at_{};  // means something while first_ < next_
};

// Speaks for one consumer with the producer: announces it, takes its deliveries, gives its releases back
// until they are acknowledged, and disconnects. common/design/wire-protocol.md has the sequence. Stepped: never waits,
// holds no thread, reads no memory.
//
// A producer's death does not end it: see lose_producer(), which ProducerLoss calls.
//
// Borrows: port and clock. Thread: one. Blocks: never.
// Errors: ProtocolError when going on could lose a batch: a delivery is missing, there are more of them than
// the window, or the producer speaks another version. What is merely out of place (another session's, repeated,
// unreadable) is counted and ignored.
class ConsumerSession {
  public:
    struct Options {
        std::uint64_t run_nonce = 0;
        std::uint64_t token = 0;   // random: a producer that recovers the run knows the session by it
        std::uint32_t window = 2;  // slabs held at a time; at least 1
        std::optional<std::uint32_t> first_window{};  // until open(); else the same
        std::string program_version;
        std::uint64_t work = 0;  // what it will do with slabs (SlabWork::hash)
    };
    enum class State {
        Greeting,  // Hello is on its way or waits for its answers
        Serving,   // welcomed
        Draining,  // on request or by own wish: takes no more, gives back what it holds
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
        std::uint64_t repeated = 0;      // deliveries seen before
        std::uint64_t out_of_place = 0;  // of a type or in a state in which it means nothing
    };

    ConsumerSession(ConsumerPort& port, const Clock& clock, const Options& options);

    // Takes in every message that waits and sends what is due. Call it often, and before every wait.
    void step();
    // The second half of step(): cheap, for between two short slabs.
    void send_due();

    // Ready for slabs: from now on the window is the whole one. Call once, when welcomed.
    void open();
    // The next slab to work on; it is then held until release(). Nothing when there is none.
    std::optional<SlabTicket> take();
    // Gives a slab that take() gave back. `busy`: how long it was worked on. step() sends it, unless it may wait for
    // the releases of the next slabs: while there are such, less than kHoldBack was spent on those unsent, and they are
    // fewer than a quarter of the window.
    void release(const SlabTicket& ticket, ReleaseKind kind, std::chrono::nanoseconds busy = kHoldBack);
    // Gives back one whose processing failed: Failed, or Rejected. `why` goes with it, for people.
    void release_failed(const SlabTicket& ticket, ReleaseKind kind, std::string why);
    static constexpr std::chrono::microseconds kHoldBack{200};
    // The producer is dead: nothing is sent or received until meet(). What is held may be worked on and released
    // meanwhile.
    void lose_producer();
    // Announces itself to the producer that recovered the run, with what it holds and what is unacknowledged: the
    // session goes on, with new numbers, when that one's Welcome comes. `port` outlives the session, or the next
    // lose_producer().
    void meet(ConsumerPort& port);

    // Ends the session in order, by own wish: no more deliveries, those not begun are returned. Harmless when
    // repeated.
    void leave();
    // leave() in the middle of an error: slabs from take() without a loan are returned, too. From then on no slab may
    // be read.
    void abandon();

    State state() const { return state_; }
    // From lose_producer() to the next producer's Welcome.
    bool away() const { return away_; }
    // True once Welcome has come; session, consumer index and epoch are in welcome().
    bool welcomed() const { return welcome_.session != 0; }
    const Welcome& welcome() const { return welcome_; }
    const Refusal& refusal() const { return refusal_; }
    const Counts& counts() const { return counts_; }

    // Delivered, and not begun.
    bool has_pending() const { return !pending_.empty(); }
    // False while a due release or another message could not be handed to the channel yet.
    bool all_sent() const { return away_ || (outgoing_.empty() && (!releases_.has_unsent() || may_hold_back())); }
    // Holds nothing, and the producer knows it.
    bool settled() const { return pending_.empty() && held_.empty() && releases_.unacknowledged() == 0; }
    // How long a caller may wait for the port before step() is due.
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

    template <class Body>
    Bytes message(const Body& body) const {
        return encode(options_.run_nonce, body);
    }
    Bytes hello() const;
    std::uint32_t window() const { return opened_ ? options_.window : options_.first_window.value_or(options_.window); }

    ConsumerPort* port_;  // null: the producer is dead
    const Clock* clock_;
    Options options_;
    std::uint32_t most_held_back_;  // releases in one message, while slabs are at hand
    State state_ = State::Greeting;
    Welcome welcome_{};
    Refusal refusal_;
    bool opened_ = false;
    bool away_ = false;
    bool returns_new_ = false;  // deliveries go back unopened
    bool disconnect_queued_ = false;
    Counts counts_;
    std::uint64_t last_delivery_ = 0;
    std::deque<SlabTicket> pending_;  // delivered, not begun
    std::vector<SlabTicket> held_;    // given out by take()
    ReleaseLog releases_;
    std::chrono::nanoseconds unsent_busy_{};  // spent on the slabs whose releases are held back
    std::deque<Bytes> outgoing_;              // for the work channel, in order
};

}  // namespace offramp
