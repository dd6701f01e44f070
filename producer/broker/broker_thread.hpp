#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "producer/broker/broker.hpp"
#include "producer/broker/broker_report.hpp"
#include "producer/broker/delivery.hpp"

namespace offramp {

// Runs a broker on a thread of its own: steps it, sleeps on its port, and keeps a copy of its totals for others to
// read. While it sleeps, the thread that publishes a slab takes its turn and hands the slab on: one thread less is
// woken on the slab's way. Borrows: what the parts borrow. Thread: any. Blocks: join(). Errors: what stopped the broker
// is thrown by join().
class BrokerThread final : public Delivery {
  public:
    struct Parts {
        std::unique_ptr<BrokerPort> port;
        std::unique_ptr<Broker> broker;
    };
    // How it ended, once, on the new thread; each may be empty.
    struct Listener {
        std::function<void()> on_end;  // the broker's report says so
        std::function<void()> on_failure;
    };
    // `make` runs on the new thread, which makes and destroys the port; the constructor returns when it
    // has, or throws what it threw, which `listener` is not told.
    BrokerThread(std::function<Parts()> make, SlabExchange& exchange, Listener listener);
    ~BrokerThread() override;
    BrokerThread(const BrokerThread&) = delete;
    BrokerThread& operator=(const BrokerThread&) = delete;

    BrokerReport report() const override;
    void abort() override;  // see Broker::abort
    void join() override;

  private:
    // Where the broker is, and whose turn it is: its thread's, but for the time in which that sleeps.
    struct Place {
        std::mutex turn;
        Broker* broker = nullptr;    // null: it takes no slabs
        std::exception_ptr failure;  // of who stood in
    };
    void run(const std::function<Parts()>& make);
    void serve(const Parts& parts);
    static bool inline_dispatch(Place& place);
    void keep(BrokerReport report);

    SlabExchange& exchange_;
    const Listener listener_;
    const std::shared_ptr<Place> place_ = std::make_shared<Place>();
    std::atomic<bool> abort_{false};
    mutable std::mutex mutex_;
    BrokerReport report_;
    std::exception_ptr failure_;
    std::atomic<int> started_{0};  // 1: running, 2: could not
    std::thread thread_;
};

}  // namespace offramp
