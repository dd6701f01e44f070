#include "consumer/session/run_views.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "common/base/error.hpp"
#include "tests/unit/session/fake_run.hpp"

namespace offramp {
namespace {

TEST(SlabMappings, FindsEverySlabInItsPlace) {
    FakeRun run;
    for (std::uint32_t i = 0; i < FakeRun::kSlabs; ++i) run.slab(i)[0] = std::byte(10 + i);
    SlabMappings mappings = SlabMappings::attach(run.names());
    for (std::uint32_t i = 0; i < FakeRun::kSlabs; ++i) {
        ASSERT_EQ(mappings.slab(i).size(), run.header().slab_bytes);
        EXPECT_EQ(mappings.slab(i)[0], std::byte(10 + i));
    }
    EXPECT_THROW(mappings.slab(FakeRun::kSlabs), ProtocolError);
    EXPECT_THROW(mappings.slab(~0U), ProtocolError);
}

TEST(SlabMappings, CanMapAllSlabsInAdvance) {
    auto run = std::make_unique<FakeRun>();
    run->slab(4)[1] = std::byte{77};
    SlabMappings mappings = SlabMappings::attach(run->names());
    while (mappings.map_next()) {
    }
    run.reset();  // names gone, mappings kept
    EXPECT_EQ(mappings.slab(4)[1], std::byte{77});
}

TEST(SlabMappings, WritesTheRequestedHeartbeat) {
    FakeRun run;
    SlabMappings mappings = SlabMappings::attach(run.names());
    store_word(mappings.heartbeat(2).progress, 5);
    EXPECT_EQ(load_word(run.heartbeat(2).progress), 5U);
    EXPECT_EQ(load_word(run.heartbeat(1).progress), 0U);
}

TEST(SlabMappings, ReportsAnEndedRunAsASystemError) {
    RunNames names;
    {
        FakeRun run;
        names = run.names();
    }
    EXPECT_THROW(SlabMappings::attach(names), SystemError);
}

struct BrokenHeader {
    const char* what;
    const char* named;
    std::function<void(LedgerHeader&)> mutate;
};

TEST(LedgerView, RefusesABrokenHeaderByName) {
    const std::vector<BrokenHeader> cases{
        {"magic", "magic", [](LedgerHeader& h) { h.magic ^= 1; }},
        {"version", "version", [](LedgerHeader& h) { h.version += 1; }},
        {"another run", "run_nonce", [](LedgerHeader& h) { h.run_nonce += 1; }},
        {"another id", "run_id", [](LedgerHeader& h) { h.run_id[0] = 'X'; }},
        {"no terminator", "run_id", [](LedgerHeader& h) { h.run_id.fill('X'); }},
        {"no slabs", "slab_count", [](LedgerHeader& h) { h.slab_count = 0; }},
        {"more slabs than the object", "size of the object", [](LedgerHeader& h) { h.slab_count += 4096; }},
        {"too many slabs", "slab_count", [](LedgerHeader& h) { h.slab_count = kMaxSlabs + 1; }},
        {"no places", "consumer_capacity", [](LedgerHeader& h) { h.consumer_capacity = 0; }},
        {"too many places", "consumer_capacity", [](LedgerHeader& h) { h.consumer_capacity = ~0U; }},
        {"empty spans", "slabs_per_span", [](LedgerHeader& h) { h.slabs_per_span = 0; }},
        {"a span larger than all", "slabs_per_span", [](LedgerHeader& h) { h.slabs_per_span = ~0U; }},
        {"spans missing", "span_count", [](LedgerHeader& h) { h.span_count -= 1; }},
        {"spans too many", "span_count", [](LedgerHeader& h) { h.span_count += 1; }},
        {"half a page", "slab_bytes", [](LedgerHeader& h) { h.slab_bytes += 512; }},
        {"no bytes", "slab_bytes", [](LedgerHeader& h) { h.slab_bytes = 0; }},
        {"bytes that overflow", "slab_bytes", [](LedgerHeader& h) { h.slab_bytes = ~std::uint64_t{4095}; }},
        {"a header beyond the slab", "header_bytes", [](LedgerHeader& h) { h.header_bytes = h.slab_bytes + 1; }},
        {"no header", "header_bytes", [](LedgerHeader& h) { h.header_bytes = 0; }},
    };
    for (const BrokenHeader& broken : cases) {
        FakeRun run;
        broken.mutate(run.header());
        try {
            SlabMappings::attach(run.names());
            ADD_FAILURE() << broken.what << " was accepted";
        } catch (const ProtocolError& problem) {
            EXPECT_NE(std::string(problem.what()).find(broken.named), std::string::npos)
                << broken.what << ": " << problem.what();
        }
    }
}

TEST(SlabMappings, RefusesASpanSmallerThanInTheLedger) {
    FakeRun run;
    run.header().slab_bytes *= 4096;
    SlabMappings mappings = SlabMappings::attach(run.names());
    EXPECT_THROW(mappings.slab(0), ProtocolError);
}

TEST(LedgerView, OnlyTheLedgersLatestDeliveryIsCurrent) {
    FakeRun run;
    SlabMappings mappings = SlabMappings::attach(run.names());
    const LedgerView& ledger = mappings.ledger();
    const SlabTicket ticket{.epoch = 1, .slab = 3, .generation = 7, .attempt = 2};
    run.set_word(3, {SlabState::Leased, 2, 7});
    EXPECT_TRUE(ledger.is_current(ticket));
    for (const SlabWord other : {SlabWord{SlabState::Leased, 3, 7}, SlabWord{SlabState::Leased, 2, 8},
                                 SlabWord{SlabState::Ready, 2, 7}, SlabWord{SlabState::Free, 2, 7},
                                 SlabWord{SlabState::Retired, 2, 7}, SlabWord{SlabState::DeadLettered, 2, 7}}) {
        run.set_word(3, other);
        EXPECT_FALSE(ledger.is_current(ticket));
        EXPECT_EQ(ledger.may_complete(ticket),
                  other.generation == 7 && (other.state == SlabState::Ready || other.state == SlabState::Leased));
    }
    EXPECT_FALSE(ledger.is_current({.epoch = 1, .slab = FakeRun::kSlabs, .generation = 7, .attempt = 2}));
    EXPECT_FALSE(ledger.may_complete({.epoch = 1, .slab = FakeRun::kSlabs, .generation = 7, .attempt = 2}));
}

}  // namespace
}  // namespace offramp
