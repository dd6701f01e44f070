#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <span>

#include "producer/device/device.hpp"

namespace offramp {

// How memory that a device copies into is page-locked, range by range, and what its first range proved: CUDA's own
// word, and a timed copy, since memory that only seems page-locked costs three quarters of the bandwidth.
//
// Borrows: device. Thread: any. Blocks: lock(), while pages are locked and, once, while the proof is taken. Errors:
// lock(): the device's; DeviceUnsupported where locking is wanted and proved, and CUDA does not know the range.
class Pinning {
  public:
    struct Options {
        bool wanted = true;  // false: memory stays ordinary
        bool proved = true;  // false: nobody asks how fast copies are
    };
    Pinning(Device& device, Options options) : device_(device), options_(options) {}
    Pinning(const Pinning&) = delete;
    Pinning& operator=(const Pinning&) = delete;

    // Locks the range for as long as what is returned lives; null where that is not wanted.
    std::shared_ptr<void> lock(std::span<std::byte> range);
    // Of the first range, once it was locked.
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
