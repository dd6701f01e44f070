#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "producer/broker/broker_report.hpp"
#include "producer/egress/egress_path.hpp"

namespace offramp {

// What a run of a program of one's own tells of itself at one moment.
struct RunStatusFields {
    std::uint64_t at_ns = 0;
    OutputStats output;
    double slab_wait_seconds = 0;
    BrokerReport broker;
};

// RUN_DIR/status.json, with the fields of launch/guide/reference/status-json.md: replaced twice a second, and when the
// run's state changes. The number of all items and the device's utilization are null, because the loop reports neither.
// `message`: why the run failed, or what the broker reports.
//
// Owns: the thread "status". Borrows: what `look` looks at, until end(). Thread: any. Blocks: change() and end(), on
// the disk. Errors: none; a page that cannot be written is logged. Without end() the page stays as it was told last.
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
    using Look = std::function<RunStatusFields()>;

    // `beside`: what else is looked at on the thread, as often; until end() as well. It throws nothing.
    RunStatus(Facts facts, Look look, std::function<void()> beside);
    ~RunStatus();
    RunStatus(const RunStatus&) = delete;
    RunStatus& operator=(const RunStatus&) = delete;

    // To "draining"; `why` belongs to "failed" alone.
    void change(const std::string& state, const std::string& why = {});
    // The last page: "ended", "abandoned", "failed". `look` is not called any more when it has returned.
    void end(const std::string& state, const std::string& why = {});

    // The page of a run between two moments. Pure, but for the time of day that it bears.
    static std::string page(const Facts& facts, const std::string& state, const RunStatusFields& before,
                            const RunStatusFields& now, const std::string& why);

  private:
    void write_periodically();
    void write();
    void stop();

    const Facts facts_;
    const Look look_;
    const std::function<void()> beside_;
    std::mutex mutex_;  // of all that follows
    std::condition_variable changed_;
    bool over_ = false;
    std::string state_ = "running";
    std::string why_;
    std::deque<RunStatusFields> earlier_;
    std::thread thread_;
};

}  // namespace offramp
