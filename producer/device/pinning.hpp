#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <span>

#include "producer/device/device.hpp"

namespace offramp {

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
