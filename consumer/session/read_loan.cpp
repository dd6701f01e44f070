#include "consumer/session/read_loan.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "common/base/error.hpp"
#include "common/base/failpoint.hpp"
#include "common/base/trace.hpp"

namespace offramp {

ReadLoan ReadLoan::open(const SlabTicket& ticket, SlabMappings& mappings, Heartbeat& heartbeat,
                        ConsumerSession& session, SlabContents& contents) {
    const TraceRange range(TraceName::Map);
    heartbeat.begin(ticket);
    ReadLoan loan(ticket, contents, heartbeat, session);
    failpoint("consumer.work_noted");
    try {
        contents.read_anew(mappings.slab(ticket.slab), mappings.ledger().header().run_nonce, ticket);
    } catch (const ProtocolError& problem) {
        std::move(loan).fail(ReleaseKind::Failed, problem.what());
        throw;
    }
    return loan;
}

ReadLoan::ReadLoan(const SlabTicket& ticket, const SlabContents& contents, Heartbeat& heartbeat,
                   ConsumerSession& session)
    : ticket_(ticket), contents_(&contents), heartbeat_(&heartbeat), session_(&session) {}

ReadLoan::ReadLoan(ReadLoan&& other) noexcept
    : ticket_(other.ticket_),
      contents_(other.contents_),
      heartbeat_(other.heartbeat_),
      session_(std::exchange(other.session_, nullptr)) {}

ReadLoan::~ReadLoan() {
    if (session_ == nullptr) return;
    try {
        return_slab();
    } catch (const std::exception& problem) {
        // Out of memory: the slab stays held until this consumer ends.
        spdlog::error("slab {} could not be given back: {}", ticket_.slab, problem.what());
    }
}

void ReadLoan::complete(std::chrono::nanoseconds busy) && {
    expect(session_ != nullptr, "a loan is used up once");
    const auto empty = std::count_if(contents_->samples.begin(), contents_->samples.end(),
                                     [](const SampleView& sample) { return sample.empty; });
    const std::uint64_t samples = contents_->samples.size() - static_cast<std::size_t>(empty);
    heartbeat_->end({.busy = busy, .samples = samples, .bytes = contents_->tensor_bytes()});
    failpoint("consumer.work_ended");
    std::exchange(session_, nullptr)->release(ticket_, ReleaseKind::Completed, busy);
}

void ReadLoan::give_back() && {
    expect(session_ != nullptr, "a loan is used up once");
    return_slab();
}

void ReadLoan::fail(ReleaseKind kind, std::string why) && {
    expect(session_ != nullptr, "a loan is used up once");
    heartbeat_->clear();
    failpoint("consumer.failed");
    std::exchange(session_, nullptr)->release_failed(ticket_, kind, std::move(why));
}

void ReadLoan::return_slab() {
    heartbeat_->clear();
    std::exchange(session_, nullptr)->release(ticket_, ReleaseKind::Returned);
}

namespace {

// There is only one writer, so only the store must be atomic, not the sum.
void add(std::uint64_t& word, std::uint64_t more) { store_word(word, load_word(word) + more); }

}  // namespace

Heartbeat::Heartbeat(HeartbeatRecord& heartbeat, std::uint64_t session) : heartbeat_(&heartbeat) {
    store_word(heartbeat.session, 0);
    for (std::uint64_t* word :
         {&heartbeat.work, &heartbeat.busy_ns, &heartbeat.slabs, &heartbeat.samples, &heartbeat.bytes})
        store_word(*word, 0);
    progress();
    store_word(heartbeat.session, session);
}

void Heartbeat::begin(const SlabTicket& ticket) {
    progress();
    store_word(heartbeat_->work,
               WorkWord{ticket.slab, ticket.attempt, static_cast<std::uint32_t>(ticket.generation)}.pack());
}

void Heartbeat::progress() { add(heartbeat_->progress, 1); }

void Heartbeat::end(const Finished& finished) {
    add(heartbeat_->busy_ns, static_cast<std::uint64_t>(finished.busy.count()));
    add(heartbeat_->slabs, 1);
    add(heartbeat_->samples, finished.samples);
    add(heartbeat_->bytes, finished.bytes);
    clear();
}

void Heartbeat::clear() {
    progress();
    store_word(heartbeat_->work, 0);
}

}  // namespace offramp
