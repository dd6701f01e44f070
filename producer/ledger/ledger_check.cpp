#include "producer/ledger/ledger_check.hpp"

#include <cstddef>
#include <string>

#include "common/base/error.hpp"
#include "common/base/remedy.hpp"

namespace offramp {
namespace {

constexpr std::uint64_t kMostSession = (std::uint64_t{1} << 40) - 1;  // the range of a holder word's session

void require(bool holds, const char* of, std::size_t index, const char* field, std::uint64_t found,
             const std::string& wanted) {
    if (!holds)
        throw ProtocolError("ledger: " + std::string(of) + " " + std::to_string(index) + ": " + field + " is " +
                                std::to_string(found) + ", expected " + wanted,
                            "Another process wrote to its memory. " + remedy(Remedy::RunAgain));
}

void check_entry(std::size_t slab, const SlabEntry& entry, std::size_t consumer_capacity) {
    const SlabWord word = SlabWord::unpack(load_word(entry.word));
    const auto state = static_cast<std::uint64_t>(word.state);
    require(state < kSlabStates, "slab", slab, "state", state, "0 to " + std::to_string(kSlabStates - 1));
    const bool may_be_held = word.state != SlabState::Free && word.state != SlabState::Filling;
    for (const std::uint64_t& place : entry.holders) {
        const std::uint64_t found = load_word(place);
        if (found == 0) continue;
        const HolderWord holder = HolderWord::unpack(found);
        require(holder.used && may_be_held, "slab", slab, "a holder's word", found, "0, as it cannot be held");
        require(holder.consumer_index < consumer_capacity, "slab", slab, "a holder's consumer index",
                holder.consumer_index, "below " + std::to_string(consumer_capacity));
    }
}

}  // namespace

void check_ledger_words(std::span<const LedgerConsumer> consumers, std::span<const SlabEntry> entries) {
    for (std::size_t index = 0; index < consumers.size(); ++index) {
        const std::uint64_t session = load_word(consumers[index].session);
        require(session <= kMostSession, "consumer", index, "session", session,
                "at most " + std::to_string(kMostSession));
    }
    for (std::size_t slab = 0; slab < entries.size(); ++slab) check_entry(slab, entries[slab], consumers.size());
}

}  // namespace offramp
