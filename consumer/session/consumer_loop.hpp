#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "common/base/clock.hpp"
#include "common/base/error.hpp"
#include "common/base/error_kind.hpp"
#include "common/tracing/live_trace.hpp"
#include "common/transport/ports.hpp"
#include "common/wire/ledger_layout.hpp"
#include "consumer/session/consumer_session.hpp"
#include "consumer/session/producer_loss.hpp"
#include "consumer/session/producer_search.hpp"
#include "consumer/session/read_loan.hpp"
#include "consumer/session/run_search.hpp"
#include "consumer/session/run_views.hpp"
#include "consumer/session/slab_processor.hpp"

namespace offramp {

// The processor, once the run has let this consumer in, under this index. Called on the loop's thread.
using MakeOnEntry = std::function<SlabProcessor&(std::uint32_t consumer_index)>;

// Runs one consumer on one thread: waits for messages, the producer's death, the launcher's and the signals;
// processes one slab at a time and gives it back before it begins the next; those of a stream of short slabs a few at a
// time (ConsumerSession::release). common/design/failure-matrix.md lists how it ends.
//
// Borrows: everything handed in; all of it outlives the loop.
// Thread: one. Blocks: run(), and turn() while a slab is processed; messages wait meanwhile, progress goes
// through the heartbeat record. Errors: whatever the processor throws counts a failure against the slab and leaves
// run(), but SinkUnavailable, which gives the slab back and ends the consumer in order, and SlabFailed, which counts a
// failure against the slab and ends nothing; ProtocolError when a slab or the session is broken. Where an error leaves
// run(), every slab is unmapped, and the run has been given back slabs and place.
class ConsumerLoop {
  public:
    // A producer that lives but does not answer must not keep a consumer whose launcher is gone for ever.
    static constexpr std::chrono::seconds kOrphanPatience{5};
    // While slabs are at hand, everything else is looked at this often, and between two slabs only.
    static constexpr std::chrono::microseconds kLookEvery{100};
    // A run may end in a process that lives on, with an unread Hello or release: while no slab is at hand,
    // the consumer looks this often whether the run is still there.
    static constexpr std::chrono::seconds kObserveRunEvery{1};

    struct End {
        ErrorKind error = ErrorKind::None;
        bool launcher_gone = false;  // perhaps no other process is left to clean up
    };

    using NextProducer = ProducerLoss::NextProducer;  // how it is found where one dies

    ConsumerLoop(ConsumerPort& port, ConsumerSession& session, SlabMappings& mappings, const MakeOnEntry& make,
                 const Clock& clock, const WatchedFds& fds)
        : ConsumerLoop(port, session, mappings, make, clock, fds, NextProducer{}) {}
    ConsumerLoop(ConsumerPort& port, ConsumerSession& session, SlabMappings& mappings, const MakeOnEntry& make,
                 const Clock& clock, const WatchedFds& fds, const NextProducer& next_producer,
                 ObserveRun observe_run = {}, LiveTrace* trace = nullptr);
    ConsumerLoop(const ConsumerLoop&) = delete;
    ConsumerLoop& operator=(const ConsumerLoop&) = delete;

    End run();

    // One round without waiting: looks at everything that may end the consumer, exchanges messages, processes
    // at most one slab. The end, when it has come.
    std::optional<End> turn();
    // True when turn() has nothing to do until something happens.
    bool idle() const { return idle_; }

  private:
    void look_at_fds();
    std::optional<End> end_if_over();
    std::optional<End> end_with_producer();
    std::optional<End> refused_end() const;
    void look_for_producer();
    std::optional<End> end_if_run_is_over();
    void begin_session();
    void note_sink_unreachable(const Error& problem);
    void work_on(const SlabTicket& ticket);
    void abandon() noexcept;
    void wait();

    ConsumerPort* port_;  // null while the producer is dead
    ConsumerSession* session_;
    SlabMappings* mappings_;
    MakeOnEntry make_;
    SlabProcessor* processor_ = nullptr;  // until this consumer is let in
    const Clock* clock_;
    WatchedFds fds_;
    std::optional<Heartbeat> heartbeat_;
    SlabTicket current_{};    // asked about by still_current_
    bool overtaken_ = false;  // still_current_ returned false for it
    SlabContents contents_;   // of the slab at hand; its memory is used again
    ObserveRun observe_run_;
    TimePoint observed_run_;  // or when it met its producer
    LiveTrace* trace_;        // null: not requested
    TimePoint looked_at_{};
    TimePoint now_{};  // at the last look on the clock
    Progress progress_;
    StillCurrent still_current_;
    std::optional<TimePoint> launcher_gone_since_;
    ProducerLoss loss_;
    bool asked_to_end_ = false;
    bool abandoned_ = false;
    bool idle_ = false;
    ErrorKind error_ = ErrorKind::None;  // of an end in order
};

}  // namespace offramp
