#include "producer/runner/report/run_report.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "common/base/clock.hpp"
#include "common/base/log.hpp"
#include "common/json/json_text.hpp"
#include "common/shm/run_files.hpp"
#include "producer/status/status_page.hpp"

namespace offramp {
namespace {

using nlohmann::json;

// {published, released, ...} in one unit.
json in_unit(const RunStats& stats, std::uint64_t SlabTotals::*unit) {
    return {{"published", stats.broker.published.*unit},
            {"released", stats.broker.completed.*unit},
            {"dead_letters", stats.broker.dead_lettered.*unit},
            {"redelivered", stats.broker.redelivered.*unit},
            {"spilled", stats.broker.spilled.*unit},
            {"ever_spilled", stats.broker.ever_spilled.*unit},
            {"dropped", stats.dropped.*unit},
            {"dropped_when_full", stats.dropped_when_full.*unit},
            {"dropped_waiting", stats.broker.dropped.*unit},
            {"in_flight", stats.broker.in_flight.*unit}};
}

// Time since the run began, without waits for another program on the device.
double seconds_of_its_own(const RunFacts& facts, const RunStats& stats, std::uint64_t to_ns) {
    return std::max(0.0, seconds_between(facts.began_ns, to_ns) - stats.turn_wait_seconds);
}

json of_measured(const RunStats& stats) {
    const MeasuredStats& from = stats.measured_from;
    const MeasuredStats& to = stats.so_far;
    if (from.at_ns == 0) return nullptr;
    return {{"batches", to.batches - from.batches},
            {"seconds", seconds_between(from.at_ns, stats.broker.last_release_ns)},
            {"compute_seconds", to.compute_seconds - from.compute_seconds},
            {"copy_seconds", to.copy_seconds - from.copy_seconds},
            {"copy_bytes", to.copy_bytes - from.copy_bytes},
            {"h2d_seconds", to.h2d_seconds - from.h2d_seconds},
            {"producer_cpu_seconds", to.producer_cpu_seconds - from.producer_cpu_seconds}};
}

// Tokens given to the model that are padding.
json tokens_json(const RunStats& stats) {
    if (stats.padded_tokens == 0) return nullptr;
    const auto padding = static_cast<double>(stats.padded_tokens - stats.tokens);
    return {{"of_texts", stats.tokens},
            {"padded", stats.padded_tokens},
            {"padding_share", padding / static_cast<double>(stats.padded_tokens)}};
}

json left_out_json(const std::vector<LeftOut>& parts) {
    json list = json::array();
    for (const LeftOut& part : parts) list.push_back({{"what", part.what}, {"count", part.count}});
    return list;
}

json items_json(const std::vector<SkippedItem>& items) {
    json list = json::array();
    for (const SkippedItem& item : items) {
        list.push_back({{"item", item.item}, {"origin", item.origin}, {"reason", item.reason}});
        if (item.similar > 0) list.back()["similar"] = item.similar;
    }
    return list;
}

json cause_json(const std::optional<FailureCause>& cause) {
    if (!cause) return nullptr;
    switch (cause->kind) {
        case FailureCause::Kind::Input:
            return {{"kind", "input"}};
        case FailureCause::Kind::Model:
            return {{"kind", "model"}};
        case FailureCause::Kind::SlabTooSmall:
            return {{"kind", "slab-too-small"}, {"slab_bytes", cause->slab_bytes}};
    }
    return nullptr;
}

// Samples released after the warm-up, over the time since. After a drained warm-up, that time runs from idle to idle. A
// run too short for a warm-up counts as a whole, with its start.
struct Rate {
    bool is_steady = false;
    double seconds = 0, batches = 0, samples = 0, bytes = 0;
};
Rate rate_of(const RunFacts& facts, const RunStats& stats) {
    const BrokerReport& broker = stats.broker;
    const bool is_steady = broker.steady_since_ns != 0 && broker.last_release_ns > broker.steady_since_ns;
    const SlabTotals from = is_steady ? broker.before_steady : SlabTotals{};
    const std::uint64_t since = stats.measured_from.at_ns != 0 ? stats.measured_from.at_ns : broker.steady_since_ns;
    Rate rate{.is_steady = is_steady,
              .seconds = is_steady ? seconds_between(since, broker.last_release_ns)
                                   : seconds_of_its_own(facts, stats, stats.at_ns)};
    rate.batches = per_second(static_cast<double>(broker.completed.batches - from.batches), rate.seconds);
    rate.samples = per_second(static_cast<double>(broker.completed.samples - from.samples), rate.seconds);
    rate.bytes = per_second(static_cast<double>(broker.completed.bytes - from.bytes), rate.seconds);
    return rate;
}

// All of the run's input is published.
bool everything_is_published(const RunFacts& facts, const RunStats& now) {
    const bool all_is_read =
        now.state == "draining" || (facts.items > 0 && facts.done_before + now.sourced >= facts.items);
    return all_is_read && now.sourced == now.accounted();
}

}  // namespace

RunReport::RunReport(std::string run_dir, RunFacts facts) : run_dir_(std::move(run_dir)), facts_(std::move(facts)) {
    if (facts_.producers > 1) return;  // the first status establishes its predecessors' stats
    RunStats start;
    start.at_ns = now_ns();
    recent_.earliest_before(start);
}

void RunReport::write_status(const RunStats& stats) {
    write_page(run_dir_ + "/" + run_files::kStatus, status_json(facts_, recent_.earliest_before(stats), stats));
}

void RunReport::write_summary(const RunStats& stats, std::optional<ExitCode> exit) {
    write_page(run_dir_ + "/" + run_files::kSummary, summary_json(facts_, stats, exit));
}

std::string RunReport::limiting_stage(const RunFacts& facts, const RunStats& before, const RunStats& now) {
    const double seconds = seconds_between(before.at_ns, now.at_ns);
    if (seconds <= 0) return "starting";
    if (now.waits_for_turn) return "turn";
    // Whatever limited the run before: only consumers are still at work.
    if (everything_is_published(facts, now) && now.broker.in_flight.samples + now.broker.spilled.samples > 0)
        return "consumers";
    struct Wait {
        const char* stage;
        double share;
    };
    const Wait waits[] = {{"input", (now.input_wait_seconds - before.input_wait_seconds) / seconds},
                          {"consumers", (now.slab_wait_seconds - before.slab_wait_seconds) / seconds},
                          {"copy to host", (now.output_wait_seconds - before.output_wait_seconds) / seconds}};
    // A wait for slabs fills the egress's queue, which then makes the model wait: check the cause first.
    for (const Wait& wait : waits)
        if (wait.share > 0.2) return wait.stage;
    return "compute";
}

std::string RunReport::status_json(const RunFacts& facts, const RunStats& before, const RunStats& now) {
    const double seconds = seconds_between(before.at_ns, now.at_ns);
    const PinningProof& pinning = now.pinning;
    json status =
        status_page(before.broker, now.broker, seconds,
                    {.state = now.state,
                     .run_id = facts.run_id,
                     .producers = facts.producers,
                     .at_ns = now.at_ns,
                     .done_before = facts.done_before,
                     .total_samples = facts.items,
                     .gpu_utilization = share_of(now.compute_busy_seconds - before.compute_busy_seconds, seconds,
                                                 !everything_is_published(facts, now)),
                     .limiting_stage = limiting_stage(facts, before, now),
                     .skipped = now.skipped,
                     .failure = now.failure,
                     .device = facts.device.word(),
                     .device_uuid = facts.device.uuid,
                     .began_ns = facts.began_ns,
                     .shm_bytes = facts.shm_bytes,
                     .pinned_bytes_per_second =
                         pinning.registered ? std::optional(pinning.gigabytes_per_second * 1e9) : std::nullopt,
                     .input_wait_seconds = now.input_wait_seconds,
                     .slab_wait_seconds = now.slab_wait_seconds,
                     .output_wait_seconds = now.output_wait_seconds,
                     .dropped = now.dropped_when_full,
                     .compute = now.compute_times,
                     .d2h = now.copy_times});
    status["done_before"] = facts.done_before;
    status["compute_busy_seconds"] = now.compute_busy_seconds;
    status["compute_busy_batches"] = now.compute_busy_batches;
    status["tokens"] = tokens_json(now);
    status["decoded_on_gpu"] = now.decoded_on_gpu;
    status["model"] = facts.model;
    return page_text(status);
}

std::string RunReport::summary_json(const RunFacts& facts, const RunStats& stats, std::optional<ExitCode> exit) {
    const BrokerReport& broker = stats.broker;
    const Rate rate = rate_of(facts, stats);
    json samples = in_unit(stats, &SlabTotals::samples);
    samples["sourced"] = stats.sourced;
    samples["skipped"] = stats.skipped;
    samples["done_before"] = facts.done_before;
    json batches = in_unit(stats, &SlabTotals::batches);
    json dead_letters = json::array();
    for (const DeadLetter& slab : broker.dead_letters->all()) {
        dead_letters.push_back({{"batch", slab.first_batch},
                                {"failures", slab.failures},
                                {"reason", slab.reason},
                                {"samples", slab.samples},
                                {"deaths", slab.deaths},
                                {"pids", slab.pids},
                                {"payload", slab.payload},
                                {"error", slab.error}});
        if (!broker.groups.empty()) dead_letters.back()["group"] = slab.group;
    }

    json limits = nullptr;
    if (stats.limits.compute_batches_per_second > 0 || stats.limits.copy_bytes_per_second > 0) {
        const double compute = stats.limits.compute_batches_per_second;
        const double copy = stats.limits.copy_bytes_per_second;
        limits = {{"compute_batches_per_second", compute},
                  {"copy_gigabytes_per_second", copy / 1e9},
                  {"delivered_over_compute", compute > 0 ? rate.batches / compute : 0},
                  {"delivered_over_copy_ceiling", copy > 0 ? rate.bytes / copy : 0}};
    }
    const double total_seconds = seconds_between(facts.began_ns, stats.at_ns);
    json summary = {
        {"state", stats.state},
        {"failure", stats.failure.empty() ? json(nullptr) : json(stats.failure)},
        {"failure_cause", cause_json(stats.failure_cause)},
        {"run_id", facts.run_id},
        {"model", facts.model},
        {"random_weights", facts.random_weights},
        {"device", facts.device.name},
        {"device_kind", facts.device.kind},
        {"precision", facts.precision},
        {"memory_format", facts.memory_format},
        {"transform", facts.transform},
        {"source", facts.source},
        {"batch", facts.batch},
        {"strategy", facts.egress},
        {"producers", facts.producers},
        {"samples_per_slab", facts.samples_per_slab},
        {"batches_per_slab", facts.batches_per_slab},
        {"slab_payload_bytes", facts.slab_payload_bytes},
        {"measured", of_measured(stats)},
        {"samples", samples},
        {"batches", batches},
        {"slabs", {{"published", totals_json(broker.published)}, {"released", totals_json(broker.completed)}}},
        {"bytes", broker.completed.bytes},
        {"seconds", total_seconds},
        {"steady", rate.is_steady},
        {"steady_seconds", rate.seconds},
        {"warmup_batches", broker.before_steady.batches},
        {"batches_per_second", rate.batches},
        {"samples_per_second", rate.samples},
        {"gigabytes_per_second", rate.bytes / 1e9},
        {"compute_busy_seconds", stats.compute_busy_seconds},
        {"compute_busy_batches", stats.compute_busy_batches},
        {"copy_seconds", stats.copy_seconds},
        {"input_wait_seconds", stats.input_wait_seconds},
        {"slab_wait_seconds", stats.slab_wait_seconds},
        {"output_wait_seconds", stats.output_wait_seconds},
        {"turn_wait_seconds", stats.turn_wait_seconds},
        {"producer_cpu_seconds", stats.so_far.producer_cpu_seconds},
        {"first_batch_seconds", seconds_of_its_own(facts, stats, broker.first_release_ns)},
        {"first_slab_seconds", stats.seconds_to_first_slab},
        {"all_slabs_seconds", stats.seconds_to_all_slabs},
        {"pinned", stats.pinning.registered},
        {"pinned_copy_gigabytes_per_second", stats.pinning.gigabytes_per_second},
        {"limits", limits},
        {"tokens", tokens_json(stats)},
        {"decoded_on_gpu", stats.decoded_on_gpu},
        {"releases", releases_json(broker)},
        {"visibility_timeouts", broker.visibility_timeouts},
        {"stalled_killed", broker.stalled_killed},
        {"payloads_lost", broker.payloads_lost},
        {"refused", broker.refused},
        {"skipped", items_json(stats.skipped_items)},
        {"unreadable_upcoming", items_json(stats.unreadable_upcoming)},
        {"left_out", left_out_json(stats.left_out)},
        {"dead_letters", dead_letters},
        {"conserved", broker.conserved()},
        {"exit", exit ? json(to_int(*exit)) : json()},
        {"consumers", consumers_json(broker, WhichConsumers::All)},
    };
    if (!broker.groups.empty()) summary["groups"] = groups_json(broker);
    return page_text(summary);
}

void DroppedLog::note(std::uint64_t batch, std::span<const RowInfo> rows, const std::string& group) {
    if (!std::exchange(warned_, true))
        spdlog::warn("no slab is free: outputs are dropped whenever that happens, and listed in {}", path_);
    nlohmann::json samples = nlohmann::json::array();
    for (const RowInfo& row : rows)
        if (!row.empty)
            samples.push_back(
                {{"item", row.item}, {"key", row.key.empty() ? std::to_string(row.item) : std::string(row.key)}});
    if (!file_.is_open()) file_.open(path_, std::ios::app);
    nlohmann::json line{{"batch", batch}, {"samples", std::move(samples)}};
    if (!group.empty()) line["group"] = group;
    file_ << json_text(line) << '\n';
    if (file_.flush()) return;
    if (failed_++ == 0)
        spdlog::error("{} cannot be written, dropped samples are not listed there: {}", path_, std::strerror(errno));
    file_.clear();
}

}  // namespace offramp
