#include "tests/unit/session/fake_run.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>

#include "common/wire/messages.hpp"
#include "common/wire/slab_view.hpp"

namespace offramp {
namespace {

constexpr std::size_t kLedgerBytes =
    sizeof(LedgerHeader) + FakeRun::kConsumerCapacity * sizeof(LedgerConsumer) + FakeRun::kSlabs * sizeof(SlabEntry);

SlabLayout small_layout() {
    const std::array<std::int64_t, 2> shape{2, 8};
    return SlabLayout::make({TensorSpec::contiguous("out", kUInt8, shape)}, 2);
}

}  // namespace

FakeRun::FakeRun()
    : names_{.run_id = "session-test", .nonce = RunNames::random_nonce()},
      layout_(small_layout()),
      plan_(SpanPlan::make(kSlabs, layout_.slab_bytes, 3)),
      ledger_(SharedRegion::create(names_.ledger(), kLedgerBytes)),
      heartbeats_(SharedRegion::create(names_.heartbeats(), kConsumerCapacity * sizeof(HeartbeatRecord))) {
    for (std::uint32_t i = 0; i < plan_.span_count; ++i)
        spans_.push_back(SharedRegion::create(names_.span(i), plan_.span_bytes(i)));
    LedgerHeader& head = header();
    head.magic = kLedgerMagic;
    head.version = kLedgerVersion;
    head.epoch = 1;
    head.run_nonce = names_.nonce;
    head.slab_count = kSlabs;
    head.consumer_capacity = kConsumerCapacity;
    head.slabs_per_span = plan_.slabs_per_span;
    head.span_count = plan_.span_count;
    head.slab_bytes = plan_.slab_bytes;
    head.header_bytes = layout_.header_bytes;
    head.producer_pid = static_cast<std::uint64_t>(::getpid());
    put_text(head.run_id, names_.run_id);
}

std::span<std::byte> FakeRun::slab(std::uint32_t index) const {
    return spans_[plan_.span_of(index)].bytes().subspan(plan_.offset_in_span(index), plan_.slab_bytes);
}

SlabTicket FakeRun::lease_filled(std::uint32_t index, std::uint64_t batch, std::uint32_t attempt) {
    const SlabTicket ticket{.epoch = 1, .slab = index, .generation = batch + 1, .attempt = attempt};
    SlabWriter writer(slab(index), layout_);
    writer.begin({.run_nonce = names_.nonce, .epoch = 1, .slab = index, .generation = ticket.generation});
    const std::array<SampleEntry, 2> samples{{{.item = 2 * batch}, {.item = 2 * batch + 1, .empty = true}}};
    EXPECT_TRUE(writer.add_batch(batch, 0, samples));
    writer.finish(1);
    set_word(index, {SlabState::Leased, attempt, ticket.generation});
    return ticket;
}

void FakeRun::set_word(std::uint32_t index, SlabWord word) const {
    auto* entries = reinterpret_cast<SlabEntry*>(ledger_.bytes().data() + sizeof(LedgerHeader) +
                                                 kConsumerCapacity * sizeof(LedgerConsumer));
    store_word(entries[index].word, word.pack());
}

void FakeRun::admit(std::uint32_t consumer_index, std::uint64_t session) const {
    auto* consumers = reinterpret_cast<LedgerConsumer*>(ledger_.bytes().data() + sizeof(LedgerHeader));
    store_word(consumers[consumer_index].session, session);
}

}  // namespace offramp
