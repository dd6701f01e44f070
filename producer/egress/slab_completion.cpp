#include "producer/egress/slab_completion.hpp"

#include "common/base/failpoint.hpp"
#include "common/base/trace.hpp"

namespace offramp {

SlabCompletion::SlabCompletion(Device& device, std::shared_ptr<SlabExchange> exchange, OutputCounters& counters,
                               DeviceTimeline& timeline, std::size_t capacity, std::function<void()> on_failure)
    : device_(device),
      exchange_(std::move(exchange)),
      counters_(counters),
      timeline_(timeline),
      on_failure_(std::move(on_failure)),
      in_flight_(capacity),
      thread_([this] { publish_completed(); }) {}

SlabCompletion::~SlabCompletion() {
    in_flight_.close();
    if (thread_.joinable()) thread_.join();
}

void SlabCompletion::finish() {
    in_flight_.close();
    if (thread_.joinable()) thread_.join();
    rethrow_failure();
}

void SlabCompletion::publish_completed() {
    name_this_thread("egress-done");
    try {
        device_.use_on_this_thread();
        while (auto filling = in_flight_.pop()) {
            const PublishedSlab& published = (*filling)->wait_copied(counters_, timeline_);
            failpoint("egress.copied");
            counters_.published(published);
            exchange_->publish((*filling)->take_loan(), published);
            failpoint("egress.published");
        }
        exchange_->finish();
    } catch (...) {
        fail(std::current_exception());
        in_flight_.abandon();  // each filling waits for its copies before it frees its slab
    }
}

void SlabCompletion::fail(std::exception_ptr failure) {
    {
        const std::lock_guard lock(failure_mutex_);
        if (!failure_) failure_ = std::move(failure);
    }
    exchange_->stop();
    on_failure_();
}

void SlabCompletion::rethrow_failure() {
    const std::lock_guard lock(failure_mutex_);
    if (failure_) std::rethrow_exception(failure_);
}

}  // namespace offramp
