#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "producer/runner/sources/batch_source.hpp"

namespace offramp {

// A hash of how many items a source has, what they are called, and what it notes of them (note_hash), in their order:
// equal for the same list of names, wherever it lies. What the items hold is not looked at: a picture that was replaced
// under its name is taken for the same.
std::uint64_t source_hash(const BatchSource& source);
// The same in 16 hexadecimal digits.
std::string source_fingerprint(const BatchSource& source);
// That of a source which were no more than the first items of this one.
std::string source_fingerprint(const BatchSource& source, std::uint64_t items);

// A hash of each item's key and note, by which it is known among others; none for a source without keys.
std::vector<std::uint64_t> hashes_of_items(const BatchSource& source);
// Of the name that an item's results go by: its key, or where it has none its number, without the note.
std::uint64_t hash_of_result_name(std::string_view key, std::uint64_t item);
// Of what is replaced with an item's results: with a tile's its picture's mask, of which other runs may have had other
// tiles, or none.
std::uint64_t hash_of_replaced_name(const BatchSource& source, std::uint64_t item);
// hash_of_result_name() of each item; none where hashes_of_items() are the same, or the source has no keys.
std::vector<std::uint64_t> hashes_of_result_names(const BatchSource& source);

}  // namespace offramp
