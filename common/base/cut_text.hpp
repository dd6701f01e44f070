#pragma once

#include <cstddef>
#include <string>

namespace offramp {

// The text, or, where it has more than `limit` bytes, its beginning and a hash of the whole, together at most `limit`:
// two texts that differ stay apart. Cut between characters; `limit` is at least 17. Thread: any.
std::string cut_text(const std::string& text, std::size_t limit);

}  // namespace offramp
