#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "common/base/durations.hpp"
#include "producer/broker/broker_report.hpp"

namespace offramp {

// The broker's part of the pages about a run (status.json, summaries). Pure, except for the clock and the file. Thread:
// any.

nlohmann::json totals_json(const SlabTotals& totals);
// Releases by outcome: only the first four changed anything.
nlohmann::json releases_json(const BrokerReport& broker);
enum class WhichConsumers { Living, All };
nlohmann::json consumers_json(const BrokerReport& broker, WhichConsumers which);
// The share of the time between two moments that consumers worked, over all consumers present in between. Work counts
// when it is finished: with none finished and some under way, the share is unknown (null).
nlohmann::json consumer_utilization(const BrokerReport& before, const BrokerReport& now, double seconds);
// Slabs by their state.
nlohmann::json slabs_json(const BrokerReport& broker);

// The part of a status that its writer adds.
struct StatusFields {
    std::string device, device_uuid;  // DeviceInfo::word() and uuid
    std::uint64_t began_ns = 0;       // CLOCK_MONOTONIC, of the run's first producer
    std::uint64_t shm_bytes = 0;
    std::optional<double> pinned_bytes_per_second;
    std::optional<double> input_wait_seconds, slab_wait_seconds, output_wait_seconds;
    SlabTotals dropped;                             // samples without a free slab
    std::optional<DurationHistogram> compute, d2h;  // by batches, by copies
};
// Adds the fields that every status.json has beyond the writer's own: see launch/guide/reference/status-json.md.
void add_fields(nlohmann::json& page, const BrokerReport& broker, const StatusFields& stats);

// Now, in UTC: "2026-11-23T18:00:00.123Z".
std::string utc_time();

// Paths and keys may hold any bytes, JSON may not: text that is not UTF-8 is replaced.
std::string page_text(const nlohmann::json& page);
// Replaces the page at `path`, whole or not at all. A failure is logged and does not end the run. Blocks: on the disk.
void write_page(const std::string& path, const std::string& text);

}  // namespace offramp
