#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "producer/broker/broker.hpp"
#include "producer/broker/broker_report.hpp"

namespace offramp {

// Runs a broker on its own thread: steps it, sleeps on its ports, and keeps a copy of its totals for readers. While it
// sleeps, the thread that publishes a slab takes the turn and hands the slab on: one wake-up less per slab. Borrows:
// what the parts borrow. Thread: any. Blocks: join(), until nothing is in flight. Errors: the broker's failure is
// thrown by join().
class BrokerThread {
  public:
    struct Parts {
        std::vector<std::unique_ptr<BrokerPort>> ports;  // by group
        std::unique_ptr<Broker> broker;
    };
    // The end, reported once, on the new thread; each callback may be empty.
    struct Listener {
        std::function<void()> on_end;  // the broker's report has `ended`
        std::function<void()> on_failure;
    };
    // `make` runs on the new thread, which makes and destroys the ports. The constructor returns after it, or throws
    // its error; `listener` is not called then.
    BrokerThread(std::function<Parts()> make, SlabExchange& exchange, Listener listener);
    ~BrokerThread();
    BrokerThread(const BrokerThread&) = delete;
    BrokerThread& operator=(const BrokerThread&) = delete;

    // At most some 100 ms old.
    BrokerReport report() const;
    void abort();  // see Broker::abort
    void join();

  private:
    // The broker and its turn: the thread's own, except while it sleeps.
    struct Place {
        std::mutex turn;
        Broker* broker = nullptr;    // null: it takes no slabs
        std::exception_ptr failure;  // of an inline dispatch
    };
    void run(const std::function<Parts()>& make);
    void serve(const Parts& parts);
    void wait(const Parts& parts, std::unique_lock<std::mutex>& turn);
    static bool inline_dispatch(Place& place);
    void keep(BrokerReport report);

    SlabExchange& exchange_;
    const Listener listener_;
    const std::shared_ptr<Place> place_ = std::make_shared<Place>();
    std::atomic<bool> abort_{false};
    mutable std::mutex mutex_;
    std::shared_ptr<const BrokerReport> report_;  // never changed: readers copy it without the lock
    std::exception_ptr failure_;
    std::vector<int> wait_fds_;
    std::atomic<int> started_{0};  // 1: running, 2: failed to start
    std::thread thread_;
};

}  // namespace offramp
