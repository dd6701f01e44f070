#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace offramp {

// An item that is left out of the results, and why: it could not be read, or came to nothing later on.
struct SkippedItem {
    std::uint64_t item = 0;
    std::string origin;
    std::string reason;
    bool was_read = false;
    std::string whole;             // what it is a part of, as a tile of a picture; empty: it is one by itself
    std::uint64_t more_alike = 0;  // further parts of that whole, skipped for the same reason, that this one stands for
    std::uint64_t last_item = 0;   // of them, and its origin; where there are more
    std::string last_origin = {};

    std::uint64_t stands_for() const { return 1 + more_alike; }  // items
};

// Collects the items that were skipped: all are counted, so many are kept. Parts of one whole with the same reason
// are kept as one, so that a damaged picture of many tiles does not push others out. Thread: any.
class SkippedItems {
  public:
    static constexpr std::size_t kKept = 10'000;

    // `before`: already counted, by an earlier producer, and not listed.
    explicit SkippedItems(std::size_t kept = kKept, std::uint64_t before = 0)
        : kept_(kept), before_(before), total_(before) {}

    // Returns how many were skipped, this one included.
    std::uint64_t record(SkippedItem item);
    std::uint64_t total() const;
    // Those that were kept, by item; of several alike the first.
    std::vector<SkippedItem> list() const;
    // Whether they stand for all that this producer met.
    bool lists_all() const;

  private:
    const std::size_t kept_;
    const std::uint64_t before_;
    mutable std::mutex mutex_;
    std::uint64_t total_;
    std::uint64_t listed_ = 0;  // that items_ stand for
    std::vector<SkippedItem> items_;
    std::map<std::pair<std::string, std::string>, std::size_t> of_wholes_;  // by whole and reason: where in items_
};

}  // namespace offramp
