#include "producer/egress/run_status.hpp"

#include <unistd.h>

#include <chrono>
#include <exception>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/base/clock.hpp"
#include "common/base/log.hpp"
#include "common/base/trace.hpp"
#include "common/shm/run_files.hpp"
#include "producer/broker/report_pages.hpp"

namespace offramp {
namespace {

using nlohmann::json;

constexpr std::chrono::milliseconds kWriteInterval{500};
constexpr std::uint64_t kRateNs = 10'000'000'000;  // rates and shares cover the last ten seconds
constexpr double kNoticed = 0.2;                   // a larger share of waiting limits the run

double per_second(double amount, double seconds) { return seconds > 0 ? amount / seconds : 0; }

// Computation, input and other waits of the loop are not visible here: they count as "program".
std::string limiting_stage(const std::string& state, const RunStatusFields& before, const RunStatusFields& now,
                           double seconds) {
    if (seconds <= 0) return "starting";
    const bool waits_for_slabs = now.slab_wait_seconds - before.slab_wait_seconds > kNoticed * seconds;
    return waits_for_slabs || (state == "draining" && now.broker.in_flight.samples > 0) ? "consumers" : "program";
}

}  // namespace

RunStatus::RunStatus(Facts facts, Look look, std::function<void()> beside)
    : facts_(std::move(facts)), look_(std::move(look)), beside_(std::move(beside)) {
    earlier_.push_back(look_());
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
    RunStatusFields now = look_();
    while (earlier_.size() > 1 && earlier_.front().at_ns + kRateNs < now.at_ns) earlier_.pop_front();
    write_page(facts_.run_dir + "/" + run_files::kStatus, page(facts_, state_, earlier_.front(), now, why_));
    earlier_.push_back(std::move(now));
}

std::string RunStatus::page(const Facts& facts, const std::string& state, const RunStatusFields& before,
                            const RunStatusFields& now, const std::string& why) {
    const BrokerReport& broker = now.broker;
    const double seconds = now.at_ns > before.at_ns ? static_cast<double>(now.at_ns - before.at_ns) / 1e9 : 0;
    const auto released = static_cast<double>(broker.completed.samples - before.broker.completed.samples);
    json status = {
        {"state", state},
        {"run_id", facts.run_id},
        {"nonce", fmt::format("{:016x}", facts.nonce)},  // as in the endpoint
        {"pid", ::getpid()},
        {"producers", facts.epoch},
        {"name", facts.name},
        {"time", utc_time()},
        {"done_samples", broker.completed.samples},
        {"total_samples", nullptr},
        {"submitted_samples", now.output.samples_submitted},
        {"batches", broker.completed.batches},
        {"released_samples", broker.completed.samples},
        {"released_batches", broker.completed.batches},
        {"released_bytes", broker.completed.bytes},
        {"last_release_ns", broker.last_release_ns},
        {"now_ns", now.at_ns},
        {"samples_per_second", per_second(released, seconds)},
        {"gpu_utilization", nullptr},
        {"consumer_utilization", consumer_utilization(before.broker, broker, seconds)},
        {"limiting_stage", limiting_stage(state, before, now, seconds)},
        {"slabs", slabs_json(broker)},
        // After the end all consumers have left: list every one of them.
        {"consumers", consumers_json(broker, run_files::is_end(state) ? WhichConsumers::All : WhichConsumers::Living)},
        {"skipped", 0},
        {"redelivered", broker.redelivered.slabs},
        {"dead_lettered_samples", broker.dead_lettered.samples},
        {"dropped_samples", now.output.samples_dropped},
        {"spilled_samples", broker.spilled.samples},
        {"releases", releases_json(broker)},
        {"last_failure", broker.last_failure},
        {"refused", broker.refused},
        {"visibility_timeouts", broker.visibility_timeouts},
        {"shortage", broker.shortage_reason},
        {"message", why.empty() ? broker.shortage : why},
    };
    add_fields(status, broker,
               {.device = facts.device,
                .device_uuid = facts.device_uuid,
                .began_ns = facts.began_ns,
                .shm_bytes = facts.shm_bytes,
                .slab_wait_seconds = now.slab_wait_seconds,
                .dropped = {.batches = now.output.batches_dropped,
                            .samples = now.output.samples_dropped,
                            .bytes = now.output.bytes_dropped},
                .d2h = now.output.copy_times});
    return page_text(status);
}

}  // namespace offramp
