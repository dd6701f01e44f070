#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace offramp {

// Lends objects, and takes each back with its last reference. It makes as many as were ever lent concurrently, not one
// per batch. Lent objects keep the pool's shelf alive. Thread: any. Errors: those of `make`.
template <class T>
class LendingPool {
  public:
    explicit LendingPool(std::function<std::unique_ptr<T>()> make) : make_(std::move(make)) {}

    // In the state in which it was last dropped.
    std::shared_ptr<T> take() {
        std::unique_ptr<T> object;
        {
            const std::lock_guard lock(shelf_->mutex);
            if (!shelf_->objects.empty()) {
                object = std::move(shelf_->objects.back());
                shelf_->objects.pop_back();
            }
        }
        if (!object) object = make_();
        return {object.release(), [shelf = shelf_](T* back) {
                    std::unique_ptr<T> owned(back);
                    const std::lock_guard lock(shelf->mutex);
                    shelf->objects.push_back(std::move(owned));
                }};
    }

  private:
    struct Shelf {
        std::mutex mutex;
        std::vector<std::unique_ptr<T>> objects;
    };
    std::function<std::unique_ptr<T>()> make_;
    std::shared_ptr<Shelf> shelf_ = std::make_shared<Shelf>();
};

}  // namespace offramp
