#include "producer/broker/broker_thread.hpp"

#include "common/base/log.hpp"
#include "common/base/trace.hpp"

namespace offramp {
namespace {

constexpr std::chrono::milliseconds kReportInterval{100};

template <class Work>
struct AtEnd {
    Work work;
    ~AtEnd() { work(); }
};

}  // namespace

BrokerThread::BrokerThread(std::function<Parts()> make, SlabExchange& exchange, Listener listener)
    : exchange_(exchange), listener_(std::move(listener)), thread_([this, make = std::move(make)] { run(make); }) {
    started_.wait(0);
    if (started_ == 2) {
        thread_.join();
        std::rethrow_exception(failure_);
    }
}

BrokerThread::~BrokerThread() {
    if (!thread_.joinable()) return;
    abort();
    thread_.join();
}

BrokerReport BrokerThread::report() const {
    const auto latest = [this] {
        const std::lock_guard lock(mutex_);
        return report_;
    }();
    return *latest;
}

void BrokerThread::abort() {
    abort_ = true;
    exchange_.wake();
}

void BrokerThread::join() {
    if (thread_.joinable()) thread_.join();
    if (failure_) std::rethrow_exception(failure_);
}

void BrokerThread::run(const std::function<Parts()>& make) {
    name_this_thread("broker");
    Parts parts;
    try {
        parts = make();
        keep(parts.broker->report());
        started_ = 1;
        started_.notify_all();
        serve(parts);
        keep(parts.broker->report());
        if (listener_.on_end) listener_.on_end();
    } catch (const std::exception& problem) {
        failure_ = std::current_exception();
        if (started_ == 1) {
            keep(parts.broker->report());
            spdlog::error("the broker stopped: {}", problem.what());
            if (listener_.on_failure) listener_.on_failure();  // before submit() returns because of the stop
            exchange_.stop();
        } else {
            started_ = 2;
            started_.notify_all();
        }
    }
}

void BrokerThread::serve(const Parts& parts) {
    std::unique_lock turn(place_->turn);
    place_->broker = parts.broker.get();
    // The callback may run after this thread has ended.
    exchange_.set_inline_dispatch([place = place_] { return inline_dispatch(*place); });
    const AtEnd leave{[&] {
        place_->broker = nullptr;
        exchange_.set_inline_dispatch({});
    }};
    auto next_report = std::chrono::steady_clock::now();
    bool abort_sent = false;
    while (!parts.broker->ended()) {
        if (place_->failure) std::rethrow_exception(place_->failure);
        if (abort_ && !abort_sent) {
            parts.broker->abort();
            abort_sent = true;
        }
        parts.broker->step();
        if (const auto now = std::chrono::steady_clock::now(); now >= next_report) {
            keep(parts.broker->report());
            next_report = now + kReportInterval;
        }
        if (!parts.broker->ended()) wait(parts, turn);
    }
}

void BrokerThread::wait(const Parts& parts, std::unique_lock<std::mutex>& turn) {
    const std::vector<int>* fds = &parts.broker->wait_fds();
    auto patience = parts.broker->patience();
    if (parts.ports.size() > 1) {
        wait_fds_ = *fds;
        for (auto port = parts.ports.begin() + 1; port != parts.ports.end(); ++port)
            if (!(*port)->prepare_wait(wait_fds_)) patience = {};
        fds = &wait_fds_;
    }
    parts.ports.front()->wait(*fds, patience, turn);
}

// Runs on the publishing thread. If another thread has the turn, it is awake and will see the slab.
bool BrokerThread::inline_dispatch(Place& place) {
    const std::unique_lock turn(place.turn, std::try_to_lock);
    if (!turn || place.broker == nullptr || place.failure) return false;
    try {
        return place.broker->dispatch_inline();
    } catch (...) {
        place.failure = std::current_exception();  // thrown by the broker's thread
        return false;
    }
}

void BrokerThread::keep(BrokerReport report) {
    auto latest = std::make_shared<const BrokerReport>(std::move(report));
    const std::lock_guard lock(mutex_);
    report_.swap(latest);  // the earlier one is destroyed after the lock is released
}

}  // namespace offramp
