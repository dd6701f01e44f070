#include "common/abi/live_handles.hpp"

#include <memory>

namespace offramp::abi {

void LiveHandles::add(const void* handle) {
    for (Places* places = &first_;;) {
        for (std::atomic<const void*>& place : places->handles) {
            const void* free = nullptr;
            if (place.compare_exchange_strong(free, handle)) return;
        }
        Places* next = places->next;
        if (next == nullptr) {
            auto more = std::make_unique<Places>();
            if (places->next.compare_exchange_strong(next, more.get())) next = more.release();
        }
        places = next;
    }
}

bool LiveHandles::has(const void* handle) const noexcept {
    for (const Places* places = &first_; places != nullptr; places = places->next)
        for (const std::atomic<const void*>& place : places->handles)
            if (place.load(std::memory_order_acquire) == handle) return true;
    return false;
}

bool LiveHandles::remove(const void* handle) noexcept {
    for (Places* places = &first_; places != nullptr; places = places->next)
        for (std::atomic<const void*>& place : places->handles) {
            const void* found = handle;
            if (place.compare_exchange_strong(found, nullptr)) return true;
        }
    return false;
}

}  // namespace offramp::abi
