#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "common/wire/ledger_layout.hpp"
#include "common/wire/slab_view.hpp"
#include "consumer/session/consumer_session.hpp"
#include "consumer/session/run_views.hpp"

namespace offramp {

// Writes this consumer's own heartbeat record: the delivery it works on, so that its death counts against that delivery
// alone, and signs of life, so that a long slab keeps its visibility timeout. Every write stores one word; the producer
// may read at any moment.
//
// Borrows: the heartbeat record. Thread: one writes. Blocks: never.
class Heartbeat {
  public:
    // What a finished slab adds to the heartbeat record's counts.
    struct Finished {
        std::chrono::nanoseconds busy{};
        std::uint64_t samples = 0;
        std::uint64_t bytes = 0;
    };

    // Clears the values of an earlier session, but continues its progress: the producer sees only whether it changed.
    // Then stores `session`: from then on the producer trusts the heartbeat record.
    Heartbeat(HeartbeatRecord& heartbeat, std::uint64_t session);

    // A death after this call counts against this delivery.
    void begin(const SlabTicket& ticket);
    void progress();
    // The results are committed: adds the counts, then clears the work word.
    void end(const Finished& finished);
    // Clears the work word: a death after this call counts against no delivery.
    void clear();

  private:
    HeartbeatRecord* heartbeat_;
};

// The right to read one slab, and the only way to reach its payload. Use it up with exactly one of complete(),
// give_back() and fail(); a destroyed loan gives the slab back as Returned. While it lives, this process's death counts
// against its delivery.
//
// Borrows: mappings, heartbeat record, session and `contents`, which outlive it. Thread: the session's. Blocks: while a
// span is mapped for the first time.
class ReadLoan {
  public:
    // `ticket`: from session.take(). Errors: ProtocolError if the slab does not match the ticket; this counts as a
    // failure, so that an unreadable slab becomes a dead letter. If mapping its memory fails, the slab is returned
    // without a failure. `contents`: receives the slab's description; the caller passes it in, so that its memory is
    // reused.
    static ReadLoan open(const SlabTicket& ticket, SlabMappings& mappings, Heartbeat& heartbeat,
                         ConsumerSession& session, SlabContents& contents);

    ReadLoan(ReadLoan&& other) noexcept;
    ReadLoan& operator=(ReadLoan&& other) = delete;
    ~ReadLoan();

    // Valid until the loan is used up.
    const SlabContents& contents() const { return *contents_; }
    const SlabTicket& ticket() const { return ticket_; }

    // The results are committed. `busy`: time spent on the slab, for status pages.
    void complete(std::chrono::nanoseconds busy) &&;
    // The slab was not processed, for a reason other than the slab.
    void give_back() &&;
    // Processing failed: counts a failure against the delivery. `kind`: Failed or Rejected.
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
