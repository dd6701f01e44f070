#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/shm/run_objects.hpp"
#include "common/shm/shared_region.hpp"
#include "common/wire/slab_layout.hpp"

namespace offramp {

// Creates the spans of slabs, faults them in and page-locks them: first one span alone, since one is enough to fill a
// batch, then the others in parallel. It maps slabs to addresses; it does not know holders or sockets.
//
// Owns: the spans' shared-memory objects, their mappings and page-lockings. Destroys them in reverse: unlock, unmap,
// remove. Thread: the constructor's, besides its own workers; usable() and bytes_of() from any. Blocks: the constructor
// while it checks for room; both waits; the destructor until its workers are done. Errors: SharedMemoryFull before
// anything is made; a worker's error goes to the Listener, and is thrown by both waits.
class SlabPool {
  public:
    // Page-locks a populated range for as long as the returned owner lives; may be empty (no GPU, or not requested).
    using Pin = std::function<std::shared_ptr<void>(std::span<std::byte>)>;

    // Called by the workers: for each span that becomes usable, and once when one could not be made.
    struct Listener {
        std::function<void()> on_usable;
        std::function<void(std::exception_ptr)> on_failure;
    };
    // Threads for faulting. Faults of one object mostly serialise, those of several do not.
    struct Threads {
        unsigned first_span = 0;     // 0: one per core, at most 5
        unsigned other_spans = 1;    // on each
        unsigned spans_at_once = 0;  // 0: one per core
    };
    SlabPool(const RunNames& names, SpanPlan plan, Pin pin, bool readable_by_group, Listener listener)
        : SlabPool(names, plan, std::move(pin), readable_by_group, std::move(listener), Threads{}) {}
    SlabPool(const RunNames& names, SpanPlan plan, Pin pin, bool readable_by_group, Listener listener, Threads threads)
        : SlabPool(names, plan, std::move(pin), readable_by_group, std::move(listener), threads, RunStart::Begun) {}
    // Takes over a dead producer's objects: their bytes stay, and are page-locked again.
    static std::unique_ptr<SlabPool> adopt(const RunNames& names, SpanPlan plan, Pin pin, bool readable_by_group,
                                           Listener listener);
    ~SlabPool();
    SlabPool(const SlabPool&) = delete;
    SlabPool& operator=(const SlabPool&) = delete;

    const SpanPlan& plan() const { return plan_; }
    bool usable(std::uint32_t slab) const { return spans_[plan_.span_of(slab)].usable.load(std::memory_order_acquire); }
    std::span<std::byte> bytes_of(std::uint32_t slab) const;
    // Returns when the first span, or every span, is usable; rethrows a worker's error.
    void wait_until_first_usable();
    void wait_until_all_usable();
    double seconds_to_first() const { return seconds_to_first_; }
    double seconds_to_all() const { return seconds_to_all_; }

  private:
    SlabPool(const RunNames& names, SpanPlan plan, Pin pin, bool readable_by_group, Listener listener, Threads threads,
             RunStart start);
    struct Span {
        std::unique_ptr<SharedRegion> region;
        std::shared_ptr<void> pinned;
        std::atomic<bool> usable{false};
    };
    void prepare_spans();
    void prepare(std::uint32_t index);
    SharedRegion make_span(std::uint32_t index) const;
    SharedRegion adopt_span(std::uint32_t index) const;
    void populate(SharedRegion& region, unsigned threads);
    void start_others();
    void fail() noexcept;

    const RunNames names_;
    const SpanPlan plan_;
    const Pin pin_;
    const bool readable_by_group_;
    const Listener listener_;
    Threads threads_;
    const RunStart start_;
    std::vector<Span> spans_;
    std::atomic<std::uint32_t> next_span_{0};
    std::atomic<std::uint32_t> usable_spans_{0};
    std::atomic<bool> failed_{false};
    std::mutex failure_mutex_;
    std::exception_ptr failure_;
    std::uint64_t began_ns_;
    std::atomic<double> seconds_to_first_{0};
    std::atomic<double> seconds_to_all_{0};
    std::mutex workers_mutex_;
    bool stopping_ = false;
    std::vector<std::thread> workers_;
};

}  // namespace offramp
