#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "producer/broker/broker_report.hpp"
#include "producer/egress/output_counters.hpp"
#include "producer/status/status_page.hpp"

namespace offramp {

// The numbers of a run inside a program at one moment.
struct EgressStats {
    std::uint64_t at_ns = 0;
    OutputStats output;
    double slab_wait_seconds = 0;
    BrokerReport broker;

    // Because no slab was free: before publication, and while slabs waited.
    SlabTotals dropped() const {
        SlabTotals all = output.dropped();
        return all += broker.dropped;
    }
};

// RUN_DIR/status.json, with the fields of launch/guide/reference/status-json.md: replaced twice a second, and when the
// run's state changes. The total of items and the device's utilization are null: the loop reports neither. `message`:
// why the run failed, or the broker's report.
//
// Owns: the thread "status". Borrows: what `look` looks at, until end(). Thread: any. Blocks: change() and end(), on
// the disk. Errors: none; a page that cannot be written is logged. Without end() the last page stays.
class RunStatus {
  public:
    struct Facts {
        std::string run_dir, run_id, name;
        std::uint64_t nonce = 0;
        std::uint32_t epoch = 0;
        std::string device, device_uuid;
        std::uint64_t began_ns = 0;  // CLOCK_MONOTONIC
        std::uint64_t shm_bytes = 0;
    };
    using Look = std::function<EgressStats()>;

    // `beside`: further work on the thread, at the same interval, also until end(). It throws nothing.
    RunStatus(Facts facts, Look look, std::function<void()> beside);
    ~RunStatus();
    RunStatus(const RunStatus&) = delete;
    RunStatus& operator=(const RunStatus&) = delete;

    // Changes to "draining"; `why` belongs to "failed" alone.
    void change(const std::string& state, const std::string& why = {});
    // Writes the last page: "ended", "abandoned", "failed". After it, `look` is not called again.
    void end(const std::string& state, const std::string& why = {});

    // The page of a run between two moments. Pure, except for the time of day in it.
    static std::string page(const Facts& facts, const std::string& state, const EgressStats& before,
                            const EgressStats& now, const std::string& why);

  private:
    void write_periodically();
    void write();
    void stop();

    const Facts facts_;
    const Look look_;
    const std::function<void()> beside_;
    std::mutex mutex_;  // guards all that follows
    std::condition_variable changed_;
    bool over_ = false;
    std::string state_ = "running";
    std::string why_;
    RecentMoments<EgressStats> recent_;
    std::thread thread_;
};

}  // namespace offramp
