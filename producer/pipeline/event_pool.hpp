#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "producer/cuda/device.hpp"

namespace offramp {

// Lends events, and takes each back when the last reference to it goes: events are made once, not once a batch.
// Borrows the device. The events that are out keep the pool's shelf alive. Thread: any.
class EventPool {
 public:
    explicit EventPool(Device& device) : device_(device) {}

    std::shared_ptr<Event> take() {
        std::unique_ptr<Event> event;
        {
            const std::lock_guard lock(shelf_->mutex);
            if (!shelf_->events.empty()) {
                event = std::move(shelf_->events.back());
                shelf_->events.pop_back();
            }
        }
        if (!event) event = device_.make_event();
        return {event.release(), [shelf = shelf_](Event* back) {
                    std::unique_ptr<Event> owned(back);
                    const std::lock_guard lock(shelf->mutex);
                    shelf->events.push_back(std::move(owned));
                }};
    }

 private:
    struct Shelf {
        std::mutex mutex;
        std::vector<std::unique_ptr<Event>> events;
    };
    Device& device_;
    std::shared_ptr<Shelf> shelf_ = std::make_shared<Shelf>();
};

}  // namespace offramp
