#include "consumer/session/heartbeat.hpp"

namespace offramp {
namespace {

// The only writer need not guard the sum, only the store.
void add(std::uint64_t& word, std::uint64_t more) { store_word(word, load_word(word) + more); }

}  // namespace

Heartbeat::Heartbeat(HeartbeatRecord& heartbeat, std::uint64_t session) : heartbeat_(&heartbeat) {
    store_word(heartbeat.session, 0);
    for (std::uint64_t* word : {&heartbeat.work, &heartbeat.progress, &heartbeat.busy_ns, &heartbeat.slabs,
                                &heartbeat.samples, &heartbeat.bytes})
        store_word(*word, 0);
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
