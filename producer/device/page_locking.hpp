#pragma once

#include <cstddef>
#include <span>

#include "producer/device/device.hpp"

namespace offramp {

// Page-locking code that both devices share.

inline constexpr std::size_t kMaxRegistrationBytes = std::size_t{64} << 30;
inline constexpr std::size_t kProofBytes = std::size_t{64} << 20;

// Broken contract: an empty range, or one above kMaxRegistrationBytes.
void expect_pinnable(std::span<std::byte> range);

// GB/s of the second of two copies from the device into the first kProofBytes of `range`, by the device's own
// clock. The first copy faults pages in and wakes the link.
double timed_copy_into(Device& device, std::span<std::byte> range);

}  // namespace offramp
