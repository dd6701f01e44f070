#pragma once

#include <span>

#include "common/wire/ledger_layout.hpp"

namespace offramp {

// Validates a previous producer's ledger before it is used: every state is known, every holder's index is in the table
// of consumers, and no slab is held while it is free or being filled. No death of a producer violates this. Errors:
// ProtocolError names the slab or consumer, the field and its value.
void check_ledger_words(std::span<const LedgerConsumer> consumers, std::span<const SlabEntry> entries);

}  // namespace offramp
