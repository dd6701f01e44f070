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
#include "consumer/session/read_loan.hpp"
#include "consumer/session/run_search.hpp"
#include "consumer/session/run_views.hpp"
#include "consumer/session/slab_processor.hpp"

namespace offramp {

// Returns the processor. The loop calls it on its own thread once the run has admitted this consumer under this index.
using MakeOnEntry = std::function<SlabProcessor&(std::uint32_t consumer_index)>;

// Runs one consumer on one thread. It waits for messages, signals, and the death of the producer or the launcher. It
// processes one slab at a time and gives it back before it begins the next; short slabs go back a few at a time
// (ConsumerSession::release). common/design/failure-matrix.md lists how it ends.
//
// Borrows: everything handed in; all of it outlives the loop. Thread: one. Blocks: run(), and turn() while a slab is
// processed; messages wait meanwhile, progress goes through the heartbeat record.
//
// Errors: run() throws what the processor throws, and counts a failure against the slab, with two exceptions.
// SinkUnavailable gives the slab back and ends the consumer in order. SlabFailed counts a failure and the consumer
// continues. ProtocolError reports a broken slab or session. After an error has left run(), every slab is unmapped, and
// the run has its slabs and the consumer's place back.
class ConsumerLoop {
  public:
    // Limits how long a live but silent producer can keep a consumer whose launcher is gone.
    static constexpr std::chrono::seconds kOrphanPatience{5};
    // While slabs are at hand, the loop checks everything else this often, and only between two slabs.
    static constexpr std::chrono::microseconds kLookEvery{100};
    // A run may end in a process that lives on without reading a Hello or release. While it has no slab, the consumer
    // checks this often that the run still exists.
    static constexpr std::chrono::seconds kObserveRunEvery{1};

    struct End {
        ErrorKind error = ErrorKind::None;
        bool launcher_gone = false;  // no other process may be left to clean up
    };

    using NextProducer = ProducerLoss::NextProducer;  // how to find the next producer

    ConsumerLoop(ConsumerPort& port, ConsumerSession& session, SlabMappings& mappings, const MakeOnEntry& make,
                 const Clock& clock, const WatchedFds& fds)
        : ConsumerLoop(port, session, mappings, make, clock, fds, NextProducer{}) {}
    ConsumerLoop(ConsumerPort& port, ConsumerSession& session, SlabMappings& mappings, const MakeOnEntry& make,
                 const Clock& clock, const WatchedFds& fds, const NextProducer& next_producer,
                 ObserveRun observe_run = {}, LiveTrace* trace = nullptr);
    ConsumerLoop(const ConsumerLoop&) = delete;
    ConsumerLoop& operator=(const ConsumerLoop&) = delete;

    End run();

    // One round without waiting: checks everything that may end the consumer, exchanges messages, processes at most one
    // slab. Returns the end, once it has come.
    std::optional<End> turn();
    // True if turn() has nothing to do until an event occurs.
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
    SlabProcessor* processor_ = nullptr;  // null until this consumer is admitted
    const Clock* clock_;
    WatchedFds fds_;
    std::optional<Heartbeat> heartbeat_;
    SlabTicket current_{};    // the delivery that still_current_ checks
    bool overtaken_ = false;  // still_current_ has returned false for current_
    SlabContents contents_;   // of the current slab; its memory is reused
    ObserveRun observe_run_;
    TimePoint observed_run_;  // last observation, or when it met its producer
    LiveTrace* trace_;        // null: not requested
    TimePoint looked_at_{};
    TimePoint now_{};  // as of the last clock read
    Progress progress_;
    StillCurrent still_current_;
    std::optional<TimePoint> launcher_gone_since_;
    ProducerLoss loss_;
    bool asked_to_end_ = false;
    bool abandoned_ = false;
    bool idle_ = false;
    ErrorKind error_ = ErrorKind::None;  // reported by an orderly end
};

}  // namespace offramp
