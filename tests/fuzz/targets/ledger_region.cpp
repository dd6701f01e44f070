// The ledger object, as a consumer reads it and as the next producer adopts it.

#include <array>
#include <cstring>

#include "common/base/error.hpp"
#include "common/wire/messages.hpp"
#include "consumer/session/run_views.hpp"
#include "producer/ledger/slab_ledger.hpp"
#include "tests/fuzz/exact_copy.hpp"
#include "tests/fuzz/fuzz_target.hpp"

namespace offramp {
namespace {

constexpr std::uint32_t kConsumers = 4;
constexpr std::uint32_t kSlabs = 5;
const RunNames kNames{"nightly-7", 77};

void read_as_consumer(std::span<const std::byte> ledger) {
    try {
        const LedgerView view = LedgerView::check(ledger, kNames);
        const SpanPlan spans = view.spans();
        for (std::uint32_t slab = 0; slab < spans.slab_count; ++slab) {
            const SlabWord word = view.slab_word(slab);
            view.may_complete({.epoch = 1, .slab = slab, .generation = word.generation, .attempt = word.attempt});
            expect(spans.span_of(slab) < spans.span_count, "a slab is in a span");
            expect(spans.offset_in_span(slab) + spans.slab_bytes <= spans.span_bytes(spans.span_of(slab)),
                   "a span holds its slabs");
        }
        for (std::uint32_t consumer_index = 0; consumer_index < view.header().consumer_capacity; ++consumer_index)
            view.session_in(consumer_index);
    } catch (const ProtocolError& refused) {
        expect(std::string_view(refused.what()).starts_with("ledger: "), "a refusal names the fault in the ledger");
    }
}

void read_as_producer(std::span<std::byte> ledger) {
    constexpr std::size_t kBegin = sizeof(LedgerHeader);
    constexpr std::size_t kEntries = kBegin + kConsumers * sizeof(LedgerConsumer);
    if (ledger.size() < kEntries + kSlabs * sizeof(SlabEntry)) return;
    SlabLedger adopted = SlabLedger::adopt({{reinterpret_cast<LedgerConsumer*>(ledger.data() + kBegin), kConsumers},
                                            {reinterpret_cast<SlabEntry*>(ledger.data() + kEntries), kSlabs}},
                                           2);
    std::uint32_t slabs = 0;
    for (const std::uint32_t count : adopted.counts()) slabs += count;
    expect(slabs == kSlabs, "every slab is in a known state");
    for (std::uint32_t slab = 0; slab < kSlabs; ++slab)
        for (const HolderWord& holder : adopted.holders(slab))
            adopted.revoke({holder.consumer_index, holder.session}, 0);
    while (const auto slab = adopted.acquire([](std::uint32_t) { return true; })) adopted.publish(*slab);
}

void feed(std::span<const std::byte> input) {
    ExactCopy copy(input);
    read_as_consumer(copy.bytes());
    try {
        read_as_producer(copy.bytes());
    } catch (const ProtocolError& refused) {
        expect(std::string_view(refused.what()).starts_with("ledger: "), "a refusal names the fault in the ledger");
    }
}

// A ledger in the middle of a run: slabs free, ready, leased and retired.
std::string ledger_at_work() {
    std::vector<std::byte> bytes(sizeof(LedgerHeader) + kConsumers * sizeof(LedgerConsumer) +
                                 kSlabs * sizeof(SlabEntry));
    LedgerHeader header{};
    header.magic = kLedgerMagic;
    header.version = kLedgerVersion;
    header.epoch = 1;
    header.run_nonce = kNames.nonce;
    header.slab_count = kSlabs;
    header.consumer_capacity = kConsumers;
    header.slabs_per_span = 2;
    header.span_count = 3;
    header.slab_bytes = 8192;
    header.header_bytes = 4096;
    put_text(header.run_id, kNames.run_id);
    std::memcpy(bytes.data(), &header, sizeof header);
    auto* const consumers = reinterpret_cast<LedgerConsumer*>(bytes.data() + sizeof header);
    SlabLedger ledger = SlabLedger::format(
        {{consumers, kConsumers}, {reinterpret_cast<SlabEntry*>(consumers + kConsumers), kSlabs}}, 1);
    const ConsumerRef one = *ledger.admit(100, 1, 0, 7);
    const ConsumerRef other = *ledger.admit(101, 2, 0, 8);
    for (int filled = 0; filled < 4; ++filled) ledger.publish(*ledger.acquire([](std::uint32_t) { return true; }));
    ledger.lease(0, one);
    ledger.lease(1, one);
    ledger.expire(1);
    ledger.release(other, ledger.lease(1, other), ReleaseKind::Completed);
    ledger.lease(2, other);
    return as_seed(bytes);
}

}  // namespace

FuzzTarget make_ledger_region() { return {feed, {ledger_at_work()}}; }

}  // namespace offramp
