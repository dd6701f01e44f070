#include "producer/pool/slab_exchange.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <utility>

#include "common/base/clock.hpp"
#include "common/base/error.hpp"
#include "common/base/trace.hpp"

namespace offramp {
namespace {

constexpr std::uint32_t kPoolShareAhead = 4;
constexpr std::uint32_t kLeastAhead = 2;
constexpr std::uint32_t kMostAhead = 64;

}  // namespace

WriteLoan& WriteLoan::operator=(WriteLoan&& other) noexcept {
    std::swap(exchange_, other.exchange_);
    std::swap(slab_, other.slab_);
    std::swap(generation_, other.generation_);
    std::swap(bytes_, other.bytes_);
    return *this;
}

WriteLoan::~WriteLoan() {
    if (exchange_) exchange_->abandon(slab_);
}

std::shared_ptr<SlabExchange> SlabExchange::make(std::uint32_t grants_ahead, const Clock& clock) {
    return std::make_shared<SlabExchange>(Private{}, grants_ahead, clock);
}

SlabExchange::SlabExchange(Private, std::uint32_t grants_ahead, const Clock& clock)
    : clock_(clock), grants_ahead_(grants_ahead), wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!wake_) throw SystemError("eventfd", errno);
}

std::optional<WriteLoan> SlabExchange::wait_for_slab(WhenNone when_none) {
    std::unique_lock lock(mutex_);
    if (grants_.empty() && !stopped_) {
        if (when_none != WhenNone::Wait) {  // the broker's earlier answer may be outdated
            short_ = false;
            drops_oldest_ = when_none == WhenNone::DropOldest;
            has_events_ = true;
            lock.unlock();
            notify();
            lock.lock();
        }
        const TraceRange range(TraceName::WaitSlab);
        const std::uint64_t began = now_ns();
        waiting_since_ns_ = began;
        waiting_ = true;
        granted_.wait(lock, [&] { return !grants_.empty() || stopped_ || (when_none == WhenNone::Return && short_); });
        waiting_ = drops_oldest_ = false;
        waited_ns_ += waited_since(began);
    }
    if (stopped_ || grants_.empty()) return std::nullopt;
    WriteLoan loan = std::move(grants_.front());
    grants_.pop_front();
    const bool wants_more = !short_ && grants_.size() <= grants_ahead_ / 2;
    wants_more_ = wants_more_ || wants_more;
    lock.unlock();
    if (wants_more) notify();
    loan.exchange_ = shared_from_this();
    return loan;
}

void SlabExchange::publish(WriteLoan loan, PublishedSlab published) {
    published.slab = loan.slab();
    if (before_publishing_) before_publishing_(published);
    std::shared_ptr<const InlineDispatch> inline_dispatch;
    {
        const std::lock_guard lock(mutex_);
        to_take_.published.push_back(std::move(published));
        const TimePoint now = clock_.now();
        if (now - published_at_ >= kNeighbours) inline_dispatch = inline_dispatch_;
        published_at_ = now;
    }
    loan.exchange_.reset();
    if (!broker_listens_ || !broker_listens_.exchange(false)) return;
    if (!inline_dispatch || !(*inline_dispatch)()) ring();
}

void SlabExchange::set_inline_dispatch(InlineDispatch inline_dispatch) {
    auto kept = inline_dispatch ? std::make_shared<const InlineDispatch>(std::move(inline_dispatch)) : nullptr;
    const std::lock_guard lock(mutex_);
    inline_dispatch_.swap(kept);
}

void SlabExchange::finish() {
    {
        const std::lock_guard lock(mutex_);
        to_take_.finished = true;
        has_events_ = true;
    }
    notify();
}

void SlabExchange::abandon(std::uint32_t slab) noexcept {
    {
        const std::lock_guard lock(mutex_);
        to_take_.abandoned.push_back(slab);
        has_events_ = true;
    }
    notify();
}

bool SlabExchange::listen() {
    listened_ = true;
    broker_listens_ = true;
    // A thread that left something before this lock did not see the broker listen; a later one does.
    const std::lock_guard lock(mutex_);
    return has_events_ || wants_more_ || !to_take_.published.empty();
}

SlabExchange::Taken SlabExchange::take() {
    if (std::exchange(listened_, false)) {
        broker_listens_ = false;
        std::uint64_t ignored = 0;
        [[maybe_unused]] const auto got = ::read(wake_.get(), &ignored, sizeof ignored);
    }
    const std::lock_guard lock(mutex_);
    has_events_ = wants_more_ = false;
    Taken taken = std::move(to_take_);
    to_take_ = {};
    to_take_.finished = taken.finished;
    return taken;
}

std::vector<PublishedSlab> SlabExchange::take_published() {
    const std::lock_guard lock(mutex_);
    return std::exchange(to_take_.published, {});
}

std::uint32_t SlabExchange::grants_wanted(std::uint32_t pool_slabs) {
    const std::lock_guard lock(mutex_);
    wants_more_ = false;
    if (grants_ahead_ == kAheadByPool)
        grants_ahead_ = std::clamp(pool_slabs / kPoolShareAhead, kLeastAhead, kMostAhead);
    const auto there = static_cast<std::uint32_t>(grants_.size());
    return stopped_ || to_take_.finished || there >= grants_ahead_ ? 0 : grants_ahead_ - there;
}

void SlabExchange::grant(std::span<WriteLoan> grants) {
    if (grants.empty()) return;
    {
        const std::lock_guard lock(mutex_);
        std::ranges::move(grants, std::back_inserter(grants_));
        short_ = false;
    }
    if (grants.size() == 1)
        granted_.notify_one();
    else
        granted_.notify_all();
}

void SlabExchange::note_shortage() {
    {
        const std::lock_guard lock(mutex_);
        short_ = true;
    }
    granted_.notify_all();
}

bool SlabExchange::wants_oldest_dropped() const {
    const std::lock_guard lock(mutex_);
    return drops_oldest_ && grants_.empty() && !stopped_;
}

bool SlabExchange::stopped() const {
    const std::lock_guard lock(mutex_);
    return stopped_;
}

std::vector<std::uint32_t> SlabExchange::withdraw_grants() {
    const std::lock_guard lock(mutex_);
    std::vector<std::uint32_t> slabs;
    for (const WriteLoan& loan : grants_) slabs.push_back(loan.slab());
    grants_.clear();
    return slabs;
}

void SlabExchange::stop() {
    {
        const std::lock_guard lock(mutex_);
        stopped_ = true;
        has_events_ = true;
    }
    granted_.notify_all();
    notify();
}

void SlabExchange::wake() {
    {
        const std::lock_guard lock(mutex_);
        has_events_ = true;
    }
    notify();
}

void SlabExchange::note_memory() {
    std::uint64_t since = kNotYet;
    memory_since_ns_.compare_exchange_strong(since, now_ns());
    wake();
}

void SlabExchange::notify() noexcept {
    if (broker_listens_ && broker_listens_.exchange(false)) ring();
}

void SlabExchange::ring() noexcept {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto put = ::write(wake_.get(), &one, sizeof one);
}

double SlabExchange::wait_seconds() const {
    std::uint64_t waited = waited_ns_;
    if (waiting_) waited += waited_since(waiting_since_ns_);
    return static_cast<double>(waited) / 1e9;
}

std::uint64_t SlabExchange::waited_since(std::uint64_t began_ns) const {
    const std::uint64_t from = std::max<std::uint64_t>(began_ns, memory_since_ns_);
    const std::uint64_t now = now_ns();
    return from < now ? now - from : 0;
}

}  // namespace offramp
