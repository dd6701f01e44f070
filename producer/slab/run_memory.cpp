#include "producer/slab/run_memory.hpp"

#include <unistd.h>

#include <cstring>

#include "common/base/process_watch.hpp"
#include "common/protocol/messages.hpp"

namespace offramp {
namespace {

std::size_t ledger_bytes(std::uint32_t consumers, std::uint32_t slabs) {
    return sizeof(LedgerHeader) + consumers * sizeof(LedgerConsumer) + slabs * sizeof(LedgerSlot);
}

}  // namespace

RunMemory::RunMemory(const RunNames& names, const SlabLayout& layout, const SpanPlan& plan,
                     std::uint32_t consumer_capacity, std::uint32_t epoch, bool readable_by_group)
    : slab_count_(plan.slab_count),
      consumer_capacity_(consumer_capacity),
      ledger_(SharedRegion::create(names.ledger(), round_up(ledger_bytes(consumer_capacity, plan.slab_count), kPageBytes),
                                   {.readable_by_group = readable_by_group})),
      cells_(SharedRegion::create(names.cells(), round_up(consumer_capacity * sizeof(ConsumerCell), kPageBytes),
                                  {.readable_by_group = readable_by_group, .writable_by_group = readable_by_group})) {
    LedgerHeader header{};
    header.magic = kLedgerMagic;
    header.version = kLedgerVersion;
    header.epoch = epoch;
    header.run_nonce = names.nonce;
    header.slab_count = plan.slab_count;
    header.consumer_capacity = consumer_capacity;
    header.slabs_per_span = plan.slabs_per_span;
    header.span_count = plan.span_count;
    header.slab_bytes = plan.slab_bytes;
    header.header_bytes = layout.header_bytes;
    header.producer_pid = static_cast<std::uint64_t>(::getpid());
    header.producer_start_time = process_start_time(header.producer_pid).value_or(0);
    put_text(header.run_id, names.run_id);
    std::memcpy(ledger_.bytes().data(), &header, sizeof header);
}

SlabLedger::Memory RunMemory::ledger() {
    std::byte* const consumers = ledger_.bytes().data() + sizeof(LedgerHeader);
    std::byte* const slots = consumers + consumer_capacity_ * sizeof(LedgerConsumer);
    return {{reinterpret_cast<LedgerConsumer*>(consumers), consumer_capacity_},
            {reinterpret_cast<LedgerSlot*>(slots), slab_count_}};
}

std::span<const ConsumerCell> RunMemory::cells() const {
    return {reinterpret_cast<const ConsumerCell*>(cells_.bytes().data()), consumer_capacity_};
}

}  // namespace offramp
