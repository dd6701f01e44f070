#include "producer/pool/slab_pool.hpp"

#include <algorithm>
#include <future>
#include <utility>

#include "common/base/clock.hpp"
#include "common/base/error.hpp"
#include "common/base/failpoint.hpp"
#include "common/base/trace.hpp"

namespace offramp {
namespace {

// More threads gain nothing on one object, and slow down the model that loads meanwhile.
constexpr unsigned kMostOnFirstSpan = 5;
// Smaller parts cost more than they save.
constexpr std::size_t kLeastPart = std::size_t{1} << 20;

}  // namespace

SlabPool::SlabPool(const RunNames& names, SpanPlan plan, Pin pin, bool readable_by_group, Listener listener,
                   Threads threads, RunStart start)
    : names_(names),
      plan_(plan),
      pin_(std::move(pin)),
      readable_by_group_(readable_by_group),
      listener_(std::move(listener)),
      threads_(threads),
      start_(start),
      spans_(plan.span_count),
      began_ns_(now_ns()) {
    const unsigned cores = std::max(1U, std::thread::hardware_concurrency());
    if (threads_.first_span == 0) threads_.first_span = std::min(cores, kMostOnFirstSpan);
    if (threads_.spans_at_once == 0) threads_.spans_at_once = cores;
    expect(threads_.other_spans > 0, "a span is populated by one thread at least");
    if (start_ == RunStart::Begun)
        require_shared_memory(plan_.total_bytes(), std::to_string(plan_.slab_count) + " slabs of " +
                                                       std::to_string(plan_.slab_bytes) + " bytes");
    // The first worker adds the others, perhaps before this line is done.
    const std::lock_guard lock(workers_mutex_);
    workers_.emplace_back([this] { prepare_spans(); });
}

std::unique_ptr<SlabPool> SlabPool::adopt(const RunNames& names, SpanPlan plan, Pin pin, bool readable_by_group,
                                          Listener listener) {
    return std::unique_ptr<SlabPool>(new SlabPool(names, plan, std::move(pin), readable_by_group, std::move(listener),
                                                  Threads{}, RunStart::Recovered));
}

SlabPool::~SlabPool() {
    next_span_ = plan_.span_count;
    std::vector<std::thread> workers;
    {
        const std::lock_guard lock(workers_mutex_);
        stopping_ = true;
        workers.swap(workers_);
    }
    for (std::thread& worker : workers) worker.join();
    for (Span& span : spans_) span.pinned.reset();
}

std::span<std::byte> SlabPool::bytes_of(std::uint32_t slab) const {
    expect(slab < plan_.slab_count && usable(slab), "a usable slab of the pool");
    return spans_[plan_.span_of(slab)].region->bytes().subspan(plan_.offset_in_span(slab), plan_.slab_bytes);
}

void SlabPool::wait_until_first_usable() {
    for (auto done = usable_spans_.load(); done == 0 && !failed_; done = usable_spans_.load()) usable_spans_.wait(done);
    if (failed_) std::rethrow_exception(failure_);
}

void SlabPool::wait_until_all_usable() {
    for (auto done = usable_spans_.load(); done < plan_.span_count && !failed_; done = usable_spans_.load())
        usable_spans_.wait(done);
    if (failed_) std::rethrow_exception(failure_);
}

void SlabPool::prepare_spans() {
    name_this_thread("slab-pool");
    try {
        for (std::uint32_t index = next_span_++; index < plan_.span_count && !failed_; index = next_span_++)
            prepare(index);
    } catch (...) {
        fail();
    }
}

void SlabPool::fail() noexcept {
    const std::lock_guard lock(failure_mutex_);
    if (failed_) return;
    failure_ = std::current_exception();
    failed_ = true;
    usable_spans_ += plan_.span_count;  // wakes both waits
    usable_spans_.notify_all();
    listener_.on_failure(failure_);
}

// The other spans' workers start when the first span is populated: page-locking it needs no core.
void SlabPool::start_others() {
    const std::lock_guard lock(workers_mutex_);
    if (stopping_) return;
    const unsigned wanted = std::min(threads_.spans_at_once, plan_.span_count - 1);
    for (unsigned i = 0; i < wanted; ++i) workers_.emplace_back([this] { prepare_spans(); });
}

void SlabPool::prepare(std::uint32_t index) {
    Span& span = spans_[index];
    span.region = std::make_unique<SharedRegion>(start_ == RunStart::Recovered ? adopt_span(index) : make_span(index));
    failpoint("pool.span_named");
    populate(*span.region, index == 0 ? threads_.first_span : threads_.other_spans);
    if (index == 0) start_others();
    if (pin_) span.pinned = pin_(span.region->bytes());
    span.usable.store(true, std::memory_order_release);
    const double seconds = static_cast<double>(now_ns() - began_ns_) / 1e9;
    const std::uint32_t done = ++usable_spans_;
    if (done == 1) seconds_to_first_ = seconds;
    if (done == plan_.span_count) seconds_to_all_ = seconds;
    usable_spans_.notify_all();
    listener_.on_usable();
}

SharedRegion SlabPool::make_span(std::uint32_t index) const {
    return SharedRegion::create(
        names_.span(index), plan_.span_bytes(index),
        {.readable_by_group = readable_by_group_, .reserve = RegionOptions::Reserve::WhenPopulated});
}

// A producer that died during its start did not create the later spans.
SharedRegion SlabPool::adopt_span(std::uint32_t index) const {
    try {
        return SharedRegion::adopt(names_.span(index), plan_.span_bytes(index));
    } catch (const Error& problem) {
        if (problem.kind() != ErrorKind::NoSuchRun) throw;
    }
    SharedRegion made = make_span(index);
    made.keep_name();  // as if it had existed before
    return made;
}

// Splits the work into equal parts, one per thread including this one. Throws the first error of any of them.
void SlabPool::populate(SharedRegion& region, unsigned threads) {
    const std::size_t bytes = region.bytes().size();
    const std::size_t part = round_up(std::max(bytes / threads, kLeastPart), kPageBytes);
    std::vector<std::future<void>> others;
    for (std::size_t at = part; at < bytes; at += part)
        others.push_back(std::async(std::launch::async,
                                    [&region, at, part, bytes] { region.populate(at, std::min(part, bytes - at)); }));
    region.populate(0, std::min(part, bytes));
    for (std::future<void>& other : others) other.get();
}

}  // namespace offramp
