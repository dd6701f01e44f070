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
#include "common/base/items.hpp"
#include "common/base/unique_fd.hpp"
#include "common/wire/run_progress.hpp"

namespace offramp {

// The contents of a published slab, for the broker's totals.
struct PublishedSlab {
    std::uint32_t slab = 0;
    std::uint64_t first_batch = 0;
    std::uint32_t samples = 0;        // without empty rows
    std::uint32_t batches_ended = 0;  // batches whose last rows are in this slab
    std::uint64_t bytes = 0;          // of the payload
    std::uint64_t filled_at_ns = 0;
    std::uint64_t items_through = 0;  // the number of the last item in it, plus one
    std::uint32_t skipped = 0;        // items, including those of skipped batches just before it
    std::uint32_t dropped = 0;        // samples dropped just before it, because no slab was free
    std::uint64_t filling = 0;        // its number in a run with groups, also after it was on the disk (WholeSlabs)
    std::vector<ItemRange> items;     // without empty rows, in the order of the slab's rows

    // Its contribution to totals.
    SlabTotals totals() const { return {.slabs = 1, .batches = batches_ended, .samples = samples, .bytes = bytes}; }
};

class SlabExchange;

// The right to write one slab, from the moment it left Free until it is published. Move-only. Publishing consumes it;
// destroying it frees the slab unfilled. The owner of an asynchronous copy into bytes() keeps the loan until the copy's
// event is done: an earlier release would hand memory to the next filling while the copy still writes.
class WriteLoan {
  public:
    // Neither end of this loan frees anything, unless an exchange has handed it out.
    WriteLoan(std::uint32_t slab, std::uint64_t generation, std::span<std::byte> bytes)
        : slab_(slab), generation_(generation), bytes_(bytes) {}
    WriteLoan(WriteLoan&& other) noexcept = default;
    WriteLoan& operator=(WriteLoan&& other) noexcept;
    ~WriteLoan();

    std::uint32_t slab() const { return slab_; }
    std::uint64_t generation() const { return generation_; }
    std::span<std::byte> bytes() const { return bytes_; }

  private:
    friend class SlabExchange;

    std::shared_ptr<SlabExchange> exchange_;  // from wait_for_slab() until it is published or moved from
    std::uint32_t slab_;
    std::uint64_t generation_;
    std::span<std::byte> bytes_;
};

// Connects the egress threads and the broker thread: free slabs one way, filled ones the other. The broker keeps some
// slabs granted ahead, so that the egress rarely waits for its thread. An awake broker is not notified: it announces
// its sleep, so a stream of small slabs costs one system call per group. While it sleeps, the publishing thread may
// dispatch inline: then no thread has to wake up.
//
// Owns: two short queues and an eventfd. Borrows: the slabs' bytes (SlabPool), through the grants; the clock.
// Thread: wait_for_slab(), publish() and finish() from the egress; take(), take_published(), grant(), note_shortage(),
// listen(), wake_fd() from the broker, or its inline dispatch; note_memory(), set_inline_dispatch(), stop() and wake()
// from any. Blocks: wait_for_slab() only.
class SlabExchange : public std::enable_shared_from_this<SlabExchange> {
  public:
    static constexpr std::uint32_t kAheadByPool = 0;
    // The broker's thread handles slabs that follow one another sooner as a group: it takes 10 to 40 µs to wake up, and
    // more slabs come in that time.
    static constexpr std::chrono::nanoseconds kNeighbours = std::chrono::microseconds(200);
    // `grants_ahead`: by default a quarter of the pool, 2 to 64 slabs.
    static std::shared_ptr<SlabExchange> make(std::uint32_t grants_ahead = kAheadByPool,
                                              const Clock& clock = kSteadyClock);

    // Slabs get their memory from now on. Waits before the first of them has it do not count as waits for a slab.
    // Called before there is an egress.
    void expect_memory() { memory_since_ns_ = kNotYet; }
    // The memory of one more slab is ready; the broker may grant it.
    void note_memory();

    // --- egress ---
    // Sleeps until a slab may be filled. Nothing after stop(). If the broker, asked again, has none: with Return, also
    // nothing; with DropOldest, it drops the oldest waiting slab for this one.
    enum class WhenNone { Wait, Return, DropOldest };
    std::optional<WriteLoan> wait_for_slab(WhenNone when_none = WhenNone::Wait);
    // `work` runs on the publishing thread before any other thread can see the slab. Set before there is an egress. If
    // it throws, publish() throws, and the slab is freed.
    void before_publishing(std::function<void(const PublishedSlab&)> work) { before_publishing_ = std::move(work); }
    void publish(WriteLoan loan, PublishedSlab published);
    // No more slabs will be requested or published.
    void finish();

    // --- broker ---
    // publish() calls it on its own thread when the broker sleeps and the previous slab was not published just before.
    // False: wake the broker. Replace it with an empty one before its captures end; a call that has begun continues.
    using InlineDispatch = std::function<bool()>;
    void set_inline_dispatch(InlineDispatch inline_dispatch);
    // Readable, after listen(), when there is something to take.
    int wake_fd() const { return wake_.get(); }
    // Call it before a sleep on wake_fd(). True: there is something to take, do not sleep.
    bool listen();
    struct Taken {
        std::vector<PublishedSlab> published;
        std::vector<std::uint32_t> abandoned;
        bool finished = false;  // and nothing will follow
    };
    Taken take();
    // Takes slabs only: for the inline dispatch.
    std::vector<PublishedSlab> take_published();
    // `pool_slabs`: how many the pool has.
    std::uint32_t grants_wanted(std::uint32_t pool_slabs);
    // Moves the loans out of `grants`.
    void grant(std::span<WriteLoan> grants);
    // Fewer slabs are free than wanted: the broker grants more later and need not be notified. Ends waits with
    // WhenNone::Return.
    void note_shortage();
    // Returns unused grants to the caller, at the end of a run.
    std::vector<std::uint32_t> withdraw_grants();

    // --- any thread ---
    void stop();
    // Wakes the broker for a reason outside the exchange.
    void wake();
    double wait_seconds() const;
    bool stopped() const;
    bool waiting() const { return waiting_.load(std::memory_order_relaxed); }
    // A wait with DropOldest has no slab yet, not even a granted one.
    bool wants_oldest_dropped() const;

  private:
    friend class WriteLoan;
    struct Private {};

  public:
    SlabExchange(Private, std::uint32_t grants_ahead, const Clock& clock);

  private:
    void abandon(std::uint32_t slab) noexcept;
    // Call it without the mutex, after the news was stored under it.
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
    std::deque<WriteLoan> grants_;
    Taken to_take_;
    bool has_events_ = false;  // for the broker, besides published slabs, since the last take()
    bool wants_more_ = false;  // grants, before they run out
    std::shared_ptr<const InlineDispatch> inline_dispatch_;
    TimePoint published_at_{};  // the last slab
    bool short_ = false;
    bool drops_oldest_ = false;  // the current wait, if the grants run out
    bool stopped_ = false;
    std::atomic<bool> broker_listens_{false};
    bool listened_ = false;  // used by the broker only
    std::atomic<bool> waiting_{false};
    std::atomic<std::uint64_t> waited_ns_{0};
    std::atomic<std::uint64_t> waiting_since_ns_{0};
    std::atomic<std::uint64_t> memory_since_ns_{0};
};

}  // namespace offramp
