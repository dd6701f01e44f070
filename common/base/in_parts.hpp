#pragma once

#include <cstdint>
#include <functional>

namespace offramp {

// A list at most this long is one part: it is not worth a thread.
inline constexpr std::uint64_t kItemsOfAPart = std::uint64_t{1} << 16;

// Calls `work(begin, end)` for parts that together are [0, count): each once, in any order, on this thread and on
// others, at most one for each core. Without threads it is slower, and otherwise the same. Blocks: until all parts are
// done. Errors: the first that `work` throws; no part begins after it.
void in_parts(std::uint64_t count, const std::function<void(std::uint64_t begin, std::uint64_t end)>& work,
              std::uint64_t of_a_part = kItemsOfAPart);

}  // namespace offramp
