#include "producer/broker/dead_letter_writer.hpp"

#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>

#include "common/base/error.hpp"
#include "common/base/failpoint.hpp"
#include "common/base/log.hpp"
#include "common/base/trace.hpp"
#include "common/dead_letters/payload_file.hpp"
#include "common/json/json_text.hpp"

namespace offramp {
namespace {

using nlohmann::json;

constexpr int kIncidentFormat = 1;

// A pair of files is named after its first row.
std::string stem_of(const DeadLetterJob& job, const SlabContents* slab) {
    const bool known = slab != nullptr && !slab->batches.empty();
    return "batch-" + std::to_string(known ? slab->batches.front().batch : job.first_batch) + "-row-" +
           std::to_string(known ? slab->batches.front().first_row : 0);
}

json deliveries_json(const std::vector<DeliveryRecord>& deliveries) {
    json list = json::array();
    for (const DeliveryRecord& delivery : deliveries)
        list.push_back({{"attempt", delivery.attempt},
                        {"pid", delivery.pid},
                        {"session", delivery.session},
                        {"seconds", static_cast<double>(delivery.ended_at_ns - delivery.delivered_at_ns) / 1e9},
                        {"end", delivery.end},
                        {"counted", delivery.counted},
                        {"why", delivery.why.empty() ? json() : json(delivery.why)},
                        // The launch script fills it in: it reaps consumers and owns their logs.
                        {"exit", nullptr},
                        {"signal", nullptr},
                        {"last_log_lines", json::array()}});
    return list;
}

void describe_slab(const SlabContents& slab, json& report) {
    for (const BatchRecord& piece : slab.batches)
        report["batches"].push_back({{"batch", piece.batch}, {"first_row", piece.first_row}, {"rows", piece.rows}});
    for (const SampleView& sample : slab.samples)
        report["samples"].push_back({{"item", sample.item}, {"key", sample.key}, {"empty", sample.empty}});
    for (const TensorView& tensor : slab.tensors) {
        const auto dims = static_cast<std::ptrdiff_t>(tensor.spec.dims);
        json described{{"name", tensor.spec.name},
                       {"dtype", to_string(tensor.spec.dtype)},
                       {"shape", std::vector(tensor.spec.shape.begin(), tensor.spec.shape.begin() + dims)}};
        if (!tensor.spec.varies())
            described["strides"] = std::vector(tensor.spec.strides.begin(), tensor.spec.strides.begin() + dims);
        report["tensors"].push_back(std::move(described));
    }
    report["payload_bytes"] = slab.tensor_bytes();
    report["model"] = slab.model;
}

}  // namespace

DeadLetterWriter::DeadLetterWriter(Settings settings) : settings_(std::move(settings)), thread_([this] { run(); }) {}

DeadLetterWriter::~DeadLetterWriter() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
}

void DeadLetterWriter::submit(DeadLetterJob job) {
    {
        const std::lock_guard lock(mutex_);
        jobs_.push_back(std::move(job));
    }
    changed_.notify_all();
}

std::vector<DeadLetterOutcome> DeadLetterWriter::take_outcomes() {
    const std::lock_guard lock(mutex_);
    return std::exchange(outcomes_, {});
}

void DeadLetterWriter::wait_until_idle() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return jobs_.empty() && !busy_; });
}

void DeadLetterWriter::run() {
    name_this_thread("dead-letters");
    std::unique_lock lock(mutex_);
    while (true) {
        changed_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
        if (stopping_) return;
        const DeadLetterJob job = std::move(jobs_.front());
        jobs_.pop_front();
        busy_ = true;
        lock.unlock();
        DeadLetterOutcome outcome = write(job);
        lock.lock();
        outcomes_.push_back(std::move(outcome));
        busy_ = false;
        lock.unlock();
        changed_.notify_all();
        settings_.on_outcome();
        lock.lock();
    }
}

DeadLetterOutcome DeadLetterWriter::write(const DeadLetterJob& job) const {
    DeadLetterOutcome outcome{.slab = job.ticket.slab, .generation = job.ticket.generation, .payload = {}, .error = {}};
    std::optional<SlabContents> slab;
    std::string stem = settings_.folder + "/" + stem_of(job, nullptr);
    try {
        if (::mkdir(settings_.folder.c_str(), 0700) != 0 && errno != EEXIST)
            throw SystemError("making the folder " + settings_.folder, errno,
                              "Make room there, or give the run another directory", ErrorKind::CannotWrite);
        failpoint("dead_letter.write");
        const SlabBytes memory = settings_.bytes_of(job.ticket.slab);
        slab = SlabContents::read(memory.bytes, settings_.run_nonce, job.ticket);
        stem = settings_.folder + "/" + stem_of(job, &*slab);
        write_payload(stem + ".safetensors", *slab);
        outcome.payload = stem + ".safetensors";
        write_dead_letter_file(stem + ".json", report_of(job, &*slab, outcome));
        spdlog::error("batch {} is dead-lettered in {}: {}", job.first_batch, outcome.payload, job.reason);
        return outcome;
    } catch (const std::exception& problem) {
        outcome.error = problem.what();
    }
    spdlog::error("batch {} became a dead letter ({}), and {} be saved: {}", job.first_batch, job.reason,
                  outcome.payload.empty() ? "its payload cannot" : "its incident report cannot", outcome.error);
    if (!outcome.payload.empty()) return outcome;
    try {
        write_dead_letter_file(stem + ".json", report_of(job, slab ? &*slab : nullptr, outcome));
    } catch (const std::exception& problem) {
        spdlog::error("{}", problem.what());
    }
    return outcome;
}

std::string DeadLetterWriter::report_of(const DeadLetterJob& job, const SlabContents* slab,
                                        const DeadLetterOutcome& outcome) const {
    json report = {{"format", kIncidentFormat},
                   {"run_id", settings_.run_id},
                   {"dead_lettered_at",
                    std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count()},
                   {"batch", job.first_batch},
                   {"reason", job.reason},
                   {"deaths", job.deaths},
                   {"failures", job.failures},
                   {"payload", nullptr},
                   {"error", nullptr},
                   {"batches", json::array()},
                   {"samples", json::array()},
                   {"tensors", json::array()},
                   {"deliveries", deliveries_json(job.deliveries)},
                   {"retries", json::array()}};
    if (!outcome.payload.empty()) report["payload"] = outcome.payload.substr(outcome.payload.rfind('/') + 1);
    if (!outcome.error.empty()) report["error"] = outcome.error;
    if (slab != nullptr) describe_slab(*slab, report);
    return json_text(report, 1) + "\n";
}

}  // namespace offramp
