#include "producer/slab/slab_pool.hpp"

#include <algorithm>
#include <future>
#include <utility>

#include "common/base/clock.hpp"
#include "common/base/error.hpp"
#include "common/base/trace.hpp"

namespace offramp {
namespace {

// Faults of one object serialise in the kernel, so a span gains nothing from more threads than this.
constexpr unsigned kThreadsPerSpan = 2;

}  // namespace

SlabPool::SlabPool(const RunNames& names, SpanPlan plan, Pin pin, bool readable_by_group,
                   News news)
    : names_(names),
      plan_(plan),
      pin_(std::move(pin)),
      readable_by_group_(readable_by_group),
      news_(std::move(news)),
      spans_(plan.span_count),
      began_ns_(now_ns()) {
    require_shared_memory(plan_.total_bytes(), std::to_string(plan_.slab_count) + " slabs of " +
                                                   std::to_string(plan_.slab_bytes) + " bytes");
    const unsigned cores = std::max(1U, std::thread::hardware_concurrency());
    const unsigned workers = std::clamp(cores / kThreadsPerSpan, 1U, plan_.span_count);
    for (unsigned i = 0; i < workers; ++i) workers_.emplace_back([this] { prepare_spans(); });
}

SlabPool::~SlabPool() {
    next_span_ = plan_.span_count;
    for (std::thread& worker : workers_) worker.join();
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
        const std::lock_guard lock(failure_mutex_);
        if (failed_) return;
        failure_ = std::current_exception();
        failed_ = true;
        usable_spans_ += plan_.span_count;   // wakes both waits
        usable_spans_.notify_all();
        news_.on_failure(failure_);
    }
}

void SlabPool::prepare(std::uint32_t index) {
    Span& span = spans_[index];
    const std::size_t bytes = plan_.span_bytes(index);
    span.region = std::make_unique<SharedRegion>(
        SharedRegion::create(names_.span(index), bytes, {.readable_by_group = readable_by_group_}));
    const std::size_t half = round_up(bytes / kThreadsPerSpan, kPageBytes);
    auto other_half = std::async(std::launch::async, [&] { span.region->populate(half, bytes - half); });
    span.region->populate(0, half);
    other_half.get();
    if (pin_) span.pinned = pin_(span.region->bytes());
    span.usable.store(true, std::memory_order_release);
    const double seconds = static_cast<double>(now_ns() - began_ns_) / 1e9;
    const std::uint32_t done = ++usable_spans_;
    if (done == 1) seconds_to_first_ = seconds;
    if (done == plan_.span_count) seconds_to_all_ = seconds;
    usable_spans_.notify_all();
    news_.on_usable();
}

}  // namespace offramp
