#pragma once

#include <cstdint>
#include <random>
#include <vector>

namespace offramp::test {

// The filtered rows of small pictures as processors make them, masks or colours with and without alpha: of 1 to 64
// pixels a side, every 50th larger, with runs of all lengths, noise, and rows like the previous one.
std::vector<std::uint8_t> filtered_picture(std::mt19937& random);

}  // namespace offramp::test
