#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "producer/cuda/device.hpp"

namespace offramp {

// Lends device buffers of one size, and takes each back when the last reference to it goes: there are as many as were ever out at
// once, and none is allocated once a batch.
// Borrows the device, which outlives every buffer. The buffers that are out keep the pool's shelf alive. Thread: any.
// Errors: the device's DeviceOutOfMemory.
class DeviceBufferPool {
 public:
    DeviceBufferPool(Device& device, std::size_t bytes, std::string purpose)
        : device_(&device), bytes_(bytes), purpose_(std::move(purpose)) {}

    // Its contents are what was last in it. Whoever drops a buffer has no work left to submit that touches it; work submitted to
    // the stream on which it is next written may still be under way.
    std::shared_ptr<DeviceBuffer> take() {
        std::unique_ptr<DeviceBuffer> buffer;
        {
            const std::lock_guard lock(shelf_->mutex);
            if (!shelf_->buffers.empty()) {
                buffer = std::move(shelf_->buffers.back());
                shelf_->buffers.pop_back();
            }
        }
        if (!buffer) buffer = device_->allocate(bytes_, purpose_);
        return {buffer.release(), [shelf = shelf_](DeviceBuffer* back) {
                    std::unique_ptr<DeviceBuffer> owned(back);
                    const std::lock_guard lock(shelf->mutex);
                    shelf->buffers.push_back(std::move(owned));
                }};
    }

 private:
    struct Shelf {
        std::mutex mutex;
        std::vector<std::unique_ptr<DeviceBuffer>> buffers;
    };
    Device* device_;
    std::size_t bytes_;
    std::string purpose_;
    std::shared_ptr<Shelf> shelf_ = std::make_shared<Shelf>();
};

}  // namespace offramp
