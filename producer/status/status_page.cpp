#include "producer/status/status_page.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>

#include "common/base/files.hpp"
#include "common/base/log.hpp"
#include "common/base/version.hpp"
#include "common/json/json_text.hpp"

namespace offramp {

using nlohmann::json;

namespace {

double busy_seconds(const BrokerReport& broker) {
    double busy = 0;
    for (const ConsumerReport& consumer : broker.consumers) busy += consumer.busy_seconds;
    return busy;
}

std::size_t consumers_between(const BrokerReport& before, const BrokerReport& now) {
    std::set<std::pair<std::string, std::uint64_t>> gone;
    for (const ConsumerReport& consumer : before.consumers)
        if (!consumer.end.empty()) gone.emplace(consumer.group, consumer.session);
    return static_cast<std::size_t>(std::ranges::count_if(now.consumers, [&](const ConsumerReport& consumer) {
        return !gone.contains({consumer.group, consumer.session});
    }));
}

std::string_view when_full_name(WhenFull policy) {
    if (policy == WhenFull::DropOldest) return "drop-oldest";
    return policy == WhenFull::Spill ? "spill" : "wait";
}

constexpr std::string_view kStateLetters = "FGPLRD";  // by SlabState
static_assert(kStateLetters.size() == kSlabStates);
// One letter per slab, unless there are too many for a reader.
constexpr std::size_t kMaxSlabStates = 1U << 16;

json slab_states(const BrokerReport& broker) {
    if (broker.slab_states.size() > kMaxSlabStates) return nullptr;
    std::string letters;
    for (const SlabState state : broker.slab_states) letters += kStateLetters[static_cast<std::size_t>(state)];
    return letters;
}

template <class Number>
json known(const std::optional<Number>& figure) {
    return figure ? json(*figure) : json();
}

json histogram_json(const DurationHistogram& histogram) {
    return {{"counts", histogram.counts()}, {"sum", histogram.seconds()}};
}

// The share of the time between two moments that consumers worked, over all consumers present in between.
json consumer_utilization(const BrokerReport& before, const BrokerReport& now, double seconds) {
    const double busy = busy_seconds(now) - busy_seconds(before);
    const double all = seconds * static_cast<double>(std::max<std::size_t>(1, consumers_between(before, now)));
    return known(share_of(busy, all, now.in_flight.samples > 0));
}

// Slabs by their state.
json slabs_json(const BrokerReport& broker) {
    json slabs = json::object();
    for (std::size_t state = 0; state < kSlabStates; ++state)
        slabs[std::string(to_string(static_cast<SlabState>(state)))] = broker.slabs[state];
    return slabs;
}

}  // namespace

json totals_json(const SlabTotals& totals) {
    return {{"slabs", totals.slabs}, {"batches", totals.batches}, {"samples", totals.samples}, {"bytes", totals.bytes}};
}

json releases_json(const BrokerReport& broker) {
    json releases = json::object();
    for (std::size_t i = 0; i < kReleaseOutcomes; ++i)
        releases[std::string(to_string(static_cast<ReleaseOutcome>(i)))] = broker.releases[i];
    releases["repeated"] = broker.repeated_releases;
    return releases;
}

json consumers_json(const BrokerReport& broker, WhichConsumers which) {
    json list = json::array();
    for (const ConsumerReport& consumer : broker.consumers) {
        if (which == WhichConsumers::Living && !consumer.end.empty()) continue;
        list.push_back({{"pid", consumer.pid},
                        {"consumer_index", consumer.consumer_index},
                        {"session", consumer.session},
                        {"slabs", consumer.completed.slabs},
                        {"batches", consumer.completed.batches},
                        {"samples", consumer.completed.samples},
                        {"bytes", consumer.completed.bytes},
                        {"busy_seconds", consumer.busy_seconds},
                        {"holding", consumer.holding},
                        {"held", consumer.held},
                        {"oldest_hold_seconds", consumer.oldest_hold_seconds},
                        {"stalled", consumer.stalled},
                        {"ready", consumer.ready},
                        {"end", consumer.end}});
        if (!consumer.group.empty()) list.back()["group"] = consumer.group;
    }
    return list;
}

json groups_json(const BrokerReport& broker) {
    json list = json::array();
    for (const GroupReport& group : broker.groups) {
        const auto of = [&](SlabState state) { return group.slabs[static_cast<std::size_t>(state)]; };
        list.push_back({{"name", group.name},
                        {"optional", group.optional},
                        {"when_full", when_full_name(group.when_full)},
                        {"released_samples", group.completed.samples},
                        {"released_slabs", group.completed.slabs},
                        {"dead_lettered_samples", group.dead_lettered.samples},
                        {"dropped_samples", group.dropped.samples},
                        {"in_flight_samples", group.in_flight.samples},
                        {"spilled_samples", group.spilled.samples},
                        {"ever_spilled_samples", group.ever_spilled.samples},
                        {"waiting_slabs", of(SlabState::Ready)},
                        {"leased_slabs", of(SlabState::Leased)},
                        {"last_release_ns", group.last_release_ns},
                        {"consumers", group.consumers},
                        {"shortage", group.shortage}});
    }
    return list;
}

json status_page(const BrokerReport& before, const BrokerReport& now, double seconds, const StatusFields& fields) {
    const auto released = static_cast<double>(now.completed.samples - before.completed.samples);
    json page = {
        {"state", fields.state},
        {"run_id", fields.run_id},
        {"pid", ::getpid()},
        {"producers", fields.producers},
        {"time", utc_time()},
        {"now_ns", fields.at_ns},
        {"done_samples", fields.done_before + now.completed.samples},
        {"total_samples", known(fields.total_samples)},
        {"batches", now.completed.batches},
        {"released_samples", now.completed.samples},
        {"released_batches", now.completed.batches},
        {"released_bytes", now.completed.bytes},
        {"last_release_ns", now.last_release_ns},
        {"samples_per_second", per_second(released, seconds)},
        {"gpu_utilization", known(fields.gpu_utilization)},
        {"consumer_utilization", consumer_utilization(before, now, seconds)},
        {"limiting_stage", fields.limiting_stage},
        {"slabs", slabs_json(now)},
        {"consumers", consumers_json(now, fields.consumers)},
        {"skipped", fields.skipped},
        {"redelivered", now.redelivered.slabs},
        {"dead_lettered_samples", now.dead_lettered.samples},
        {"dropped_samples", fields.dropped.samples},
        {"dropped_waiting_samples", now.dropped.samples},
        {"spilled_samples", now.spilled.samples},
        {"releases", releases_json(now)},
        {"last_failure", now.last_failure},
        {"refused", now.refused},
        {"visibility_timeouts", now.visibility_timeouts},
        {"shortage", now.shortage_reason},
        {"message", !fields.failure.empty()    ? fields.failure
                    : !now.spill_error.empty() ? now.spill_error
                                               : now.shortage},
    };
    page["version"] = program_version();
    page["device"] = fields.device;
    page["device_uuid"] = fields.device_uuid;
    page["began_ns"] = fields.began_ns;
    page["shm_bytes"] = fields.shm_bytes;
    page["pinned_bytes_per_second"] = known(fields.pinned_bytes_per_second);
    page["input_wait_seconds"] = known(fields.input_wait_seconds);
    page["slab_wait_seconds"] = known(fields.slab_wait_seconds);
    page["output_wait_seconds"] = known(fields.output_wait_seconds);
    page["totals"] = {{"published", totals_json(now.published)},        {"completed", totals_json(now.completed)},
                      {"dead_letters", totals_json(now.dead_lettered)}, {"redelivered", totals_json(now.redelivered)},
                      {"dropped", totals_json(fields.dropped)},         {"spilled", totals_json(now.ever_spilled)}};
    json bounds = json::array();
    for (const std::uint64_t bound : DurationHistogram::kBoundsNs) bounds.push_back(static_cast<double>(bound) / 1e9);
    page["stage_bounds_seconds"] = std::move(bounds);
    json stages = {{"queue", histogram_json(now.queue)}, {"process", histogram_json(now.process)}};
    if (fields.compute) stages["compute"] = histogram_json(*fields.compute);
    if (fields.d2h) stages["d2h"] = histogram_json(*fields.d2h);
    page["stage_seconds"] = std::move(stages);
    page["slab_states"] = slab_states(now);
    json letters = json::object();
    for (std::size_t state = 0; state < kSlabStates; ++state)
        letters[std::string(1, kStateLetters[state])] = std::string(to_string(static_cast<SlabState>(state)));
    page["slab_state_letters"] = std::move(letters);
    page["slab_failures"] = now.slab_failures;
    if (!now.groups.empty()) page["groups"] = groups_json(now);
    return page;
}

double per_second(double amount, double seconds) { return seconds > 0 ? amount / seconds : 0; }

std::optional<double> share_of(double busy_seconds, double seconds, bool something_goes_on) {
    if (busy_seconds <= 0 && something_goes_on) return std::nullopt;
    return std::clamp(per_second(busy_seconds, seconds), 0.0, 1.0);
}

double seconds_between(std::uint64_t from_ns, std::uint64_t to_ns) {
    return to_ns > from_ns ? static_cast<double>(to_ns - from_ns) / 1e9 : 0;
}

std::string utc_time() {
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    std::tm utc{};
    ::gmtime_r(&now.tv_sec, &utc);
    std::array<char, 40> text{};
    const std::size_t length = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &utc);
    std::snprintf(text.data() + length, text.size() - length, ".%03ldZ", now.tv_nsec / 1'000'000);
    return text.data();
}

std::string page_text(const json& page) { return json_text(page, 1); }

void write_page(const std::string& path, const std::string& text) {
    try {
        WholeFile file(path, 0644, [&](int problem) { return SystemError(path + " cannot be written", problem); });
        file.write(text + '\n');
        file.put_in_place();
    } catch (const SystemError& problem) {
        spdlog::warn("{}", problem.what());
    }
}

}  // namespace offramp
