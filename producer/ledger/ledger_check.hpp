#pragma once

#include <span>

#include "common/wire/ledger_layout.hpp"

namespace offramp {

// Checks what a previous producer left before anything is done by it: every state is known, every holder's index is one
// of the table of consumers, nobody holds a slab that is free or being filled. No death of a producer leaves it
// otherwise. Errors: ProtocolError names the slab or consumer, the field and what was found.
void check_ledger_words(std::span<const LedgerConsumer> consumers, std::span<const SlabEntry> entries);

}  // namespace offramp
