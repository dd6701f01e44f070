#pragma once

#include <atomic>
#include <chrono>
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

#include "common/base/clock.hpp"
#include "common/base/unique_fd.hpp"
#include "producer/pool/published_slab.hpp"
#include "producer/pool/write_loan.hpp"

namespace offramp {

// Where the egress threads and the broker thread meet: free slabs one way, filled ones the other. The broker keeps some
// slabs granted ahead, so that the egress seldom waits for its thread. A broker that is awake is not notified: it says
// when it is about to sleep, so that a stream of small slabs costs a system call a batch of them. While it sleeps,
// whoever publishes a slab may stand in for it: nobody has to wake up then.
//
// Owns: two short queues and an eventfd. Borrows: the slabs' bytes (SlabPool), through the grants; the clock.
// Thread: wait_for_slab(), publish() and finish() from the egress; take(), take_published(), grant(), note_shortage(),
// listen(), wake_fd() from the broker, or who stands in; note_memory(), set_inline_dispatch(), stop() and wake() from
// any. Blocks: wait_for_slab() only.
class SlabExchange : public std::enable_shared_from_this<SlabExchange> {
  public:
    static constexpr std::uint32_t kAheadByPool = 0;
    // Slabs that follow one another sooner are better handed on together, by the broker's thread: it takes 10 to 40 µs
    // to wake up, in which more of them come.
    static constexpr std::chrono::nanoseconds kNeighbours = std::chrono::microseconds(200);
    // `grants_ahead`: by default a quarter of the pool, 2 to 64 slabs.
    static std::shared_ptr<SlabExchange> make(std::uint32_t grants_ahead = kAheadByPool,
                                              const Clock& clock = kSteadyClock);

    // Slabs get their memory from now on; what is waited for before the first of them has it counts as no wait for a
    // slab. Called before there is an egress.
    void expect_memory() { memory_since_ns_ = kNotYet; }
    // A slab more has its memory: for the broker to grant it.
    void note_memory();

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
    // What publish() calls, on its thread, when the broker sleeps and the slab before is not a neighbour. False: the
    // broker is to be woken. To be taken away, by an empty one, before what it needs ends; a call that has begun goes
    // on.
    using InlineDispatch = std::function<bool()>;
    void set_inline_dispatch(InlineDispatch inline_dispatch);
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
    // Slabs alone: for who stands in.
    std::vector<PublishedSlab> take_published();
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
    SlabExchange(Private, std::uint32_t grants_ahead, const Clock& clock);

  private:
    void abandon(std::uint32_t slab) noexcept;
    // With the mutex not held, after what there is was put under it.
    void notify() noexcept;
    void ring() noexcept;
    std::uint64_t waited_since(std::uint64_t began_ns) const;

    static constexpr std::uint64_t kNotYet = ~std::uint64_t{0};
    const Clock& clock_;
    std::uint32_t grants_ahead_;
    std::function<void(const PublishedSlab&)> before_publishing_;
    UniqueFd wake_;
    mutable std::mutex mutex_;
    std::condition_variable granted_;
    std::deque<Grant> grants_;
    Taken to_take_;
    bool has_events_ = false;  // since the last take(), for the broker, besides what was published
    bool wants_more_ = false;  // grants, before they run out
    std::shared_ptr<const InlineDispatch> inline_dispatch_;
    TimePoint published_at_{};  // the last slab
    bool short_ = false;
    bool stopped_ = false;
    std::atomic<bool> broker_listens_{false};
    bool listened_ = false;  // the broker's own note
    std::atomic<bool> waiting_{false};
    std::atomic<std::uint64_t> waited_ns_{0};
    std::atomic<std::uint64_t> waiting_since_ns_{0};
    std::atomic<std::uint64_t> memory_since_ns_{0};
};

}  // namespace offramp
