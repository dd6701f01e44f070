#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "common/wire/ledger_layout.hpp"
#include "common/wire/slab_view.hpp"
#include "consumer/session/consumer_session.hpp"
#include "consumer/session/run_views.hpp"

namespace offramp {

// Writes this consumer's own heartbeat record: what it works on, so that its death is counted against that delivery
// alone, and signs of life, so that a long slab keeps its visibility timeout. Every write is one store of one word; the
// producer may read at any moment.
//
// Borrows: the heartbeat record. Thread: one writes. Blocks: never.
class Heartbeat {
  public:
    // The amounts that a finished slab adds to the heartbeat record's counts.
    struct Finished {
        std::chrono::nanoseconds busy{};
        std::uint64_t samples = 0;
        std::uint64_t bytes = 0;
    };

    // Clears what an earlier session left, then stores `session`: from then on the producer believes the
    // heartbeat record.
    Heartbeat(HeartbeatRecord& heartbeat, std::uint64_t session);

    // From here on a death is counted against this delivery.
    void begin(const SlabTicket& ticket);
    void progress();
    // The results are committed: counts them, then clears the work word.
    void end(const Finished& finished);
    // Clears the work word: a death from here on is counted against nothing.
    void clear();

  private:
    HeartbeatRecord* heartbeat_;
};

// The right to read one slab, and the only way to reach its payload. Exactly one of complete(), give_back() and fail()
// uses it up; forgetting it gives the slab back as Returned. While it lives, this process's death is counted against
// its delivery.
//
// Borrows: mappings, heartbeat record, session, and the memory of what it reads, which outlive it. Thread: the
// session's. Blocks: while a span is mapped for the first time.
class ReadLoan {
  public:
    // `ticket`: from session.take(). Errors: ProtocolError if the slab does not match the ticket; it has failed then,
    // so that an unreadable slab becomes a dead letter. Errors of mapping its memory do not concern the slab: it is
    // returned. `contents`: receives the slab's description; passed in so that its memory serves the next slab, too.
    static ReadLoan open(const SlabTicket& ticket, SlabMappings& mappings, Heartbeat& heartbeat,
                         ConsumerSession& session, SlabContents& contents);

    ReadLoan(ReadLoan&& other) noexcept;
    ReadLoan& operator=(ReadLoan&& other) = delete;
    ~ReadLoan();

    // Valid until the loan is used up.
    const SlabContents& contents() const { return *contents_; }
    const SlabTicket& ticket() const { return ticket_; }

    // The results are committed. `busy`: time spent on it, for status pages.
    void complete(std::chrono::nanoseconds busy) &&;
    // Not processed, and not the slab's fault.
    void give_back() &&;
    // Processing failed: the delivery counts as a failure. `kind`: Failed or Rejected.
    void fail(ReleaseKind kind, std::string why) &&;

  private:
    ReadLoan(const SlabTicket& ticket, const SlabContents& contents, Heartbeat& heartbeat, ConsumerSession& session);
    void return_slab();

    SlabTicket ticket_;
    const SlabContents* contents_;
    Heartbeat* heartbeat_;
    ConsumerSession* session_;  // null once used up
};

}  // namespace offramp
