#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "common/base/unique_fd.hpp"
#include "producer/pool/published_slab.hpp"
#include "producer/pool/write_loan.hpp"

namespace offramp {

// Where the egress threads and the broker thread meet: free slabs one way, filled ones the other. The broker keeps some
// slabs granted ahead, so that the egress seldom waits for its thread. A broker that is awake is not notified: it says
// when it is about to sleep, so that a stream of small slabs costs a system call a batch of them.
//
// Owns: two short queues and an eventfd. Borrows: the slabs' bytes (SlabPool), through the grants.
// Thread: wait_for_slab(), publish() and finish() from the egress; take(), grant(), note_shortage(), listen(),
// wake_fd() from the broker; stop() and wake() from any. Blocks: wait_for_slab() only.
class SlabExchange : public std::enable_shared_from_this<SlabExchange> {
  public:
    static constexpr std::uint32_t kAheadByPool = 0;
    // `grants_ahead`: by default a quarter of the pool, 2 to 64 slabs.
    static std::shared_ptr<SlabExchange> make(std::uint32_t grants_ahead = kAheadByPool);

    // --- egress ---
    // Sleeps until a slab may be filled. Nothing after stop(); with Return, nothing either when the broker was asked
    // anew and has none.
    enum class WhenNone { Wait, Return };
    std::optional<WriteLoan> wait_for_slab(WhenNone when_none = WhenNone::Wait);
    // To be called by whoever publishes a slab, before anybody else can know of it. Set before there is an egress. What
    // it throws publish() throws, and the slab is given back.
    void before_publishing(std::function<void(const PublishedSlab&)> work) { before_publishing_ = std::move(work); }
    void publish(WriteLoan loan, PublishedSlab published);
    // No slab will be asked for or published any more.
    void finish();

    // --- broker ---
    struct Grant {
        std::uint32_t slab = 0;
        std::uint64_t generation = 0;
        std::span<std::byte> bytes;
    };
    // Readable, after listen(), when there is something to take.
    int wake_fd() const { return wake_.get(); }
    // Before a sleep on wake_fd(). True when something is there already: do not sleep.
    bool listen();
    struct Taken {
        std::vector<PublishedSlab> published;
        std::vector<std::uint32_t> abandoned;
        bool finished = false;  // and nothing will follow
    };
    Taken take();
    // `pool_slabs`: how many the pool has.
    std::uint32_t grants_wanted(std::uint32_t pool_slabs);
    void grant(std::span<const Grant> grants);
    // Less than was wanted is free: the broker grants more when it is, and need not be notified. Ends waits that want
    // to know.
    void note_shortage();
    // Grants that nobody took are given back to the caller, at the end of a run.
    std::vector<std::uint32_t> withdraw_grants();

    // --- anyone ---
    void stop();
    // Wakes the broker for a reason of its own.
    void wake();
    double wait_seconds() const;
    bool stopped() const;
    bool waiting() const { return waiting_.load(std::memory_order_relaxed); }

  private:
    friend class WriteLoan;
    struct Private {};

  public:
    SlabExchange(Private, std::uint32_t grants_ahead);

  private:
    void abandon(std::uint32_t slab) noexcept;
    // With the mutex not held, after has_events_ was set under it.
    void notify() noexcept;

    std::uint32_t grants_ahead_;
    std::function<void(const PublishedSlab&)> before_publishing_;
    UniqueFd wake_;
    mutable std::mutex mutex_;
    std::condition_variable granted_;
    std::deque<Grant> grants_;
    Taken to_take_;
    bool has_events_ = false;  // since the last take(), for the broker
    bool short_ = false;
    bool stopped_ = false;
    std::atomic<bool> broker_listens_{false};
    bool listened_ = false;  // the broker's own note
    std::atomic<bool> waiting_{false};
    std::atomic<std::uint64_t> waited_ns_{0};
    std::atomic<std::uint64_t> waiting_since_ns_{0};
};

}  // namespace offramp
