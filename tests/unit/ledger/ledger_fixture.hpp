#pragma once

#include <memory>
#include <vector>

#include "producer/ledger/slab_ledger.hpp"

namespace offramp {

// A ledger over ordinary memory, with consumers already in.
struct LedgerFixture {
    explicit LedgerFixture(std::uint32_t slabs = 3, std::uint32_t consumers = 4)
        : consumer_table(8),
          entries(slabs),
          ledger(std::make_unique<SlabLedger>(SlabLedger::format({consumer_table, entries}, 1))) {
        for (std::uint32_t i = 0; i < consumers; ++i) admitted.push_back(*ledger->admit(100 + i, 1, 0, 200 + i));
    }

    // A slab that has been filled and published.
    std::uint32_t make_ready() {
        const std::uint32_t slab = *ledger->acquire([](std::uint32_t) { return true; });
        ledger->publish(slab);
        return slab;
    }
    SlabState state(std::uint32_t slab) const { return ledger->word(slab).state; }

    std::vector<LedgerConsumer> consumer_table;
    std::vector<SlabEntry> entries;
    std::unique_ptr<SlabLedger> ledger;
    std::vector<ConsumerRef> admitted;
};

}  // namespace offramp
