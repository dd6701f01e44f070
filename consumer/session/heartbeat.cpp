#include "consumer/session/heartbeat.hpp"

namespace offramp {
namespace {

// The only writer need not guard the sum, only the store.
void add(std::uint64_t& word, std::uint64_t more) { store_word(word, load_word(word) + more); }

}  // namespace

WorkCell::WorkCell(ConsumerCell& cell, std::uint64_t session) : cell_(&cell) {
    store_word(cell.session, 0);
    for (std::uint64_t* word : {&cell.work, &cell.progress, &cell.busy_ns, &cell.slabs, &cell.samples, &cell.bytes})
        store_word(*word, 0);
    store_word(cell.session, session);
}

void WorkCell::begin(const SlabTicket& ticket) {
    progress();
    store_word(cell_->work,
               WorkWord{ticket.slab, ticket.attempt, static_cast<std::uint32_t>(ticket.generation)}.pack());
}

void WorkCell::progress() { add(cell_->progress, 1); }

void WorkCell::end(const Finished& finished) {
    add(cell_->busy_ns, static_cast<std::uint64_t>(finished.busy.count()));
    add(cell_->slabs, 1);
    add(cell_->samples, finished.samples);
    add(cell_->bytes, finished.bytes);
    clear();
}

void WorkCell::clear() {
    progress();
    store_word(cell_->work, 0);
}

}  // namespace offramp
