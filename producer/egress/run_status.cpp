#include "producer/egress/run_status.hpp"

#include <chrono>
#include <exception>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/base/log.hpp"
#include "common/base/trace.hpp"
#include "common/shm/run_files.hpp"
#include "producer/status/status_page.hpp"

namespace offramp {
namespace {

using nlohmann::json;

constexpr std::chrono::milliseconds kWriteInterval{500};
constexpr double kNoticed = 0.2;  // a larger share of waiting limits the run

// Computation, input and other waits of the loop are not visible here: they count as "program".
std::string limiting_stage(const std::string& state, const EgressStats& before, const EgressStats& now,
                           double seconds) {
    if (seconds <= 0) return "starting";
    const bool waits_for_slabs = now.slab_wait_seconds - before.slab_wait_seconds > kNoticed * seconds;
    return waits_for_slabs || (state == "draining" && now.broker.in_flight.samples > 0) ? "consumers" : "program";
}

}  // namespace

RunStatus::RunStatus(Facts facts, Look look, std::function<void()> beside)
    : facts_(std::move(facts)), look_(std::move(look)), beside_(std::move(beside)) {
    recent_.earliest_before(look_());
    write();
    thread_ = std::thread([this] { write_periodically(); });
}

RunStatus::~RunStatus() { stop(); }

void RunStatus::change(const std::string& state, const std::string& why) {
    const std::lock_guard guard(mutex_);
    if (over_ || state_ == state) return;
    state_ = state;
    why_ = why;
    write();
}

void RunStatus::end(const std::string& state, const std::string& why) {
    stop();
    const std::lock_guard guard(mutex_);
    state_ = state;
    why_ = why;
    write();
}

void RunStatus::stop() {
    {
        const std::lock_guard guard(mutex_);
        over_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
}

void RunStatus::write_periodically() {
    name_this_thread("status");
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, kWriteInterval, [this] { return over_; })) {
        try {
            write();
        } catch (const std::exception& problem) {  // the run goes on without a status page
            spdlog::error("writing the run's status: {}", problem.what());
        }
        lock.unlock();
        beside_();
        lock.lock();
    }
}

void RunStatus::write() {
    const EgressStats now = look_();
    write_page(facts_.run_dir + "/" + run_files::kStatus,
               page(facts_, state_, recent_.earliest_before(now), now, why_));
}

std::string RunStatus::page(const Facts& facts, const std::string& state, const EgressStats& before,
                            const EgressStats& now, const std::string& why) {
    const double seconds = seconds_between(before.at_ns, now.at_ns);
    json status = status_page(before.broker, now.broker, seconds,
                              {.state = state,
                               .run_id = facts.run_id,
                               .producers = facts.epoch,
                               .at_ns = now.at_ns,
                               .limiting_stage = limiting_stage(state, before, now, seconds),
                               // After the end all consumers have left: list every one of them.
                               .consumers = run_files::is_end(state) ? WhichConsumers::All : WhichConsumers::Living,
                               .failure = why,
                               .device = facts.device,
                               .device_uuid = facts.device_uuid,
                               .began_ns = facts.began_ns,
                               .shm_bytes = facts.shm_bytes,
                               .slab_wait_seconds = now.slab_wait_seconds,
                               .dropped = now.dropped(),
                               .d2h = now.output.copy_times});
    status["nonce"] = fmt::format("{:016x}", facts.nonce);  // as in the endpoint
    status["name"] = facts.name;
    status["submitted_samples"] = now.output.samples_submitted;
    return page_text(status);
}

}  // namespace offramp
