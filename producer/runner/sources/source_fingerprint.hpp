#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "producer/runner/sources/batch_source.hpp"

namespace offramp {

// A hash of a source's number of items, and of their names and notes (note_hash) in order: equal for the same list of
// names in any place. It ignores the items' contents: a picture replaced under its name counts as the same.
std::uint64_t source_hash(const BatchSource& source);
// The same in 16 hexadecimal digits.
std::string source_fingerprint(const BatchSource& source);
// The fingerprint of a source with only the first items of this one.
std::string source_fingerprint(const BatchSource& source, std::uint64_t items);

// A hash of each item's key and note, which identifies it among others; none for a source without keys.
std::vector<std::uint64_t> hashes_of_items(const BatchSource& source);
}  // namespace offramp
