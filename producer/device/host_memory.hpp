#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "producer/device/device.hpp"

namespace offramp {

// "1409286144 bytes (1.31 GiB)"; below 10 KiB without the second form.
std::string byte_count(std::size_t bytes);

// The machine's physical memory, and the kernel's estimate of available memory. 0: unknown.
std::size_t total_host_memory();
std::size_t free_host_memory();

// Page-locking code that both devices share.

inline constexpr std::size_t kMaxRegistrationBytes = std::size_t{64} << 30;
inline constexpr std::size_t kProofBytes = std::size_t{64} << 20;

// Broken contract: an empty range, or one above kMaxRegistrationBytes.
void expect_pinnable(std::span<std::byte> range);

// GB/s of the second of two copies from the device into the first kProofBytes of `range`, by the device's own
// clock. The first copy faults pages in and wakes the link.
double timed_copy_into(Device& device, std::span<std::byte> range);

// Page-locks memory that a device copies into, range by range, and proves the first range with CUDA's own attributes
// and a timed copy: memory that only seems page-locked costs three quarters of the bandwidth.
//
// Borrows: device. Thread: any. Blocks: lock(), while pages are locked and, once, while the proof is taken. Errors:
// lock(): the device's; DeviceUnsupported if locking is wanted and proved, and CUDA does not know the range.
class Pinning {
  public:
    struct Options {
        bool wanted = true;  // false: memory stays ordinary
        bool proved = true;  // false: the speed of copies is not measured
    };
    Pinning(Device& device, Options options) : device_(device), options_(options) {}
    Pinning(const Pinning&) = delete;
    Pinning& operator=(const Pinning&) = delete;

    // Locks the range for the lifetime of the result; null unless `wanted`.
    std::shared_ptr<void> lock(std::span<std::byte> range);
    // The proof of the first range, once it was locked.
    PinningProof proof() const;

  private:
    void prove(std::span<std::byte> range);

    Device& device_;
    const Options options_;
    mutable std::mutex mutex_;  // guards the next two
    PinningProof proof_;
    bool is_proved_ = false;
};

}  // namespace offramp
