#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "producer/sources/batch_source.hpp"

namespace offramp {

// A hash of how many items a source has, what they are called, and what it notes of them (note_hash), in their order: equal for the same
// list of names, wherever it lies. What the items hold is not looked at: a picture that was replaced under its name is taken for the same.
std::uint64_t source_hash(const BatchSource& source);
// The same in 16 hexadecimal digits.
std::string source_fingerprint(const BatchSource& source);
// That of a source which were no more than the first items of this one.
std::string source_fingerprint(const BatchSource& source, std::uint64_t items);

// A hash of each item's key and note, by which it is known among others; none for a source without keys.
std::vector<std::uint64_t> hashes_of_items(const BatchSource& source);
// A hash of each name that results go by: the item's key, or its number, without the note.
std::vector<std::uint64_t> hashes_of_result_names(const BatchSource& source);

}  // namespace offramp
