#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/unique_fd.hpp"
#include "producer/slab/fill_lease.hpp"

namespace offramp {

// What a published slab holds, for the broker's books.
struct PublishedSlab {
    std::uint32_t slab = 0;
    std::uint64_t first_batch = 0;
    std::uint32_t samples = 0;         // without holes
    std::uint32_t batches_ended = 0;   // batches whose last rows are in this slab
    std::uint64_t bytes = 0;           // of the payload
    std::uint64_t filled_at_ns = 0;
};

// Where the egress threads and the broker thread meet: free slabs one way, filled ones the other. The broker keeps a few slabs
// granted ahead, so that the egress seldom waits for its thread.
//
// Owns: two short queues and an eventfd. Borrows: the slabs' bytes (SlabPool), through the grants.
// Thread: wait_for_slab(), publish() and finish() from the egress; take_published(), grant(), wake_fd() from the broker;
// stop() from any. Blocks: wait_for_slab() only.
class SlabExchange : public std::enable_shared_from_this<SlabExchange> {
 public:
    static std::shared_ptr<SlabExchange> make(std::uint32_t grants_ahead = 2);

    // --- egress ---
    // Sleeps until a slab may be filled. Nothing after stop().
    std::optional<FillLease> wait_for_slab();
    void publish(FillLease lease, PublishedSlab published);
    // No slab will be asked for or published any more.
    void finish();

    // --- broker ---
    // Readable when there is something to take.
    int wake_fd() const { return wake_.get(); }
    struct Taken {
        std::vector<PublishedSlab> published;
        std::vector<std::uint32_t> abandoned;
        bool finished = false;         // and nothing will follow
    };
    Taken take();
    std::uint32_t grants_wanted() const;
    void grant(std::uint32_t slab, std::uint64_t generation, std::span<std::byte> bytes);
    // Grants that nobody took are given back to the caller, at the end of a run.
    std::vector<std::uint32_t> withdraw_grants();
    // Why no slab can be granted just now, in words, for whoever asks while wait_for_slab() sleeps.
    void set_shortage(std::string reason);

    // --- anyone ---
    void stop();
    // Wakes the broker for a reason of its own.
    void wake();
    double wait_seconds() const;
    bool waiting() const { return waiting_.load(std::memory_order_relaxed); }
    std::string shortage() const;

 private:
    friend class FillLease;
    struct Private {};
    struct Grant {
        std::uint32_t slab;
        std::uint64_t generation;
        std::span<std::byte> bytes;
    };

 public:
    SlabExchange(Private, std::uint32_t grants_ahead);

 private:
    void abandon(std::uint32_t slab) noexcept;

    const std::uint32_t grants_ahead_;
    UniqueFd wake_;
    mutable std::mutex mutex_;
    std::condition_variable granted_;
    std::deque<Grant> grants_;
    Taken to_take_;
    bool stopped_ = false;
    std::string shortage_;
    std::atomic<bool> waiting_{false};
    std::atomic<std::uint64_t> waited_ns_{0};
    std::atomic<std::uint64_t> waiting_since_ns_{0};
};

}  // namespace offramp
