#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "producer/broker/spill_store.hpp"

namespace offramp {

// The stores of a run's groups, in real folders. With await() between two steps, the next one finds the outcome of
// every store at work, so that a history does not depend on how fast their threads are. Each await() needs a step
// behind it, which takes the outcomes.
class AwaitedStores {
  public:
    explicit AwaitedStores(std::size_t groups) : stores_(groups), outcomes_(groups), taken_(groups) {}

    void add(std::size_t group, const std::string& folder) {
        auto outcomes = std::make_shared<std::atomic<int>>(0);  // the broker may keep the store for longer
        stores_[group] = std::make_shared<SpillStore>(folder, [outcomes] {
            ++*outcomes;
            outcomes->notify_one();
        });
        outcomes_[group] = std::move(outcomes);
    }
    // Null for a group without a store.
    const std::vector<std::shared_ptr<SpillStore>>& by_group() const { return stores_; }
    bool busy() const {
        return std::ranges::any_of(stores_, [](const auto& store) { return store && store->busy(); });
    }
    void await() {
        for (std::size_t group = 0; group < stores_.size(); ++group) {
            if (!stores_[group] || !stores_[group]->busy()) continue;
            outcomes_[group]->wait(taken_[group]++);
        }
    }
    // Ends the jobs that the stores work on without a step, as when the producer dies.
    void finish() {
        for (const auto& store : stores_)
            while (store && store->busy())
                if (!store->take_outcome()) std::this_thread::yield();
    }

  private:
    std::vector<std::shared_ptr<SpillStore>> stores_;
    std::vector<std::shared_ptr<std::atomic<int>>> outcomes_;
    std::vector<int> taken_;
};

}  // namespace offramp
