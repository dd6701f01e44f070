#include "producer/ledger/ledger_check.hpp"

#include <cstddef>
#include <string>

#include "common/base/error.hpp"

namespace offramp {
namespace {

constexpr std::uint64_t kMostSession = (std::uint64_t{1} << 40) - 1;  // what a holder's word has room for

void require(bool holds, const char* of, std::size_t index, const char* field, std::uint64_t found,
             const std::string& wanted) {
    if (!holds)
        throw ProtocolError("ledger: " + std::string(of) + " " + std::to_string(index) + ": " + field + " is " +
                                std::to_string(found) + ", wanted " + wanted,
                            "Its memory was written to by somebody else. Start the run again with --resume");
}

void check_slot(std::size_t slab, const LedgerSlot& slot, std::size_t places) {
    const SlabWord word = SlabWord::unpack(load_word(slot.word));
    const auto state = static_cast<std::uint64_t>(word.state);
    require(state < kSlabStates, "slab", slab, "state", state, "0 to " + std::to_string(kSlabStates - 1));
    const bool may_be_held = word.state != SlabState::Free && word.state != SlabState::Filling;
    for (const std::uint64_t& place : slot.holders) {
        const std::uint64_t found = load_word(place);
        if (found == 0) continue;
        const HolderWord holder = HolderWord::unpack(found);
        require(holder.used && may_be_held, "slab", slab, "a holder's word", found, "0, as nobody can hold it");
        require(holder.slot < places, "slab", slab, "a holder's place", holder.slot, "below " + std::to_string(places));
    }
}

}  // namespace

void check_ledger_words(std::span<const LedgerConsumer> consumers, std::span<const LedgerSlot> slots) {
    for (std::size_t place = 0; place < consumers.size(); ++place) {
        const std::uint64_t session = load_word(consumers[place].session);
        require(session <= kMostSession, "consumer", place, "session", session,
                "at most " + std::to_string(kMostSession));
    }
    for (std::size_t slab = 0; slab < slots.size(); ++slab) check_slot(slab, slots[slab], consumers.size());
}

}  // namespace offramp
