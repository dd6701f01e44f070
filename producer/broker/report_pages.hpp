#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "common/base/duration_histogram.hpp"
#include "producer/broker/broker_report.hpp"

namespace offramp {

// What pages about a run (status.json, summaries) say of its broker, whoever writes them. Pure, but for the clock and
// the file. Thread: any.

nlohmann::json totals_json(const SlabTotals& totals);
// How the releases that came in were taken: only the first three changed anything.
nlohmann::json releases_json(const BrokerReport& broker);
enum class WhichConsumers { Living, All };
nlohmann::json consumers_json(const BrokerReport& broker, WhichConsumers which);
// The part of the time between two moments that consumers worked, those that were there at any time between them. Work
// counts when it is finished: where none was, while some goes on, the share is not known (null).
nlohmann::json consumer_utilization(const BrokerReport& before, const BrokerReport& now, double seconds);
// Slabs by their state.
nlohmann::json slabs_json(const BrokerReport& broker);

// What a status tells beside its broker, as far as its writer knows it.
struct StatusFields {
    std::string device, device_uuid;  // DeviceInfo::word() and uuid
    std::uint64_t began_ns = 0;       // CLOCK_MONOTONIC, of the run's first producer
    std::uint64_t shm_bytes = 0;
    std::optional<double> pinned_bytes_per_second;
    std::optional<double> input_wait_seconds, slab_wait_seconds, output_wait_seconds;
    SlabTotals dropped;                             // no slab was free for them
    std::optional<DurationHistogram> compute, d2h;  // by batches, by copies
};
// Puts into `page` what every status.json has, whoever writes it, beyond what its writer has put there:
// launch/guide/reference/status-json.md describes each field.
void add_fields(nlohmann::json& page, const BrokerReport& broker, const StatusFields& stats);

// Now, in UTC: "2026-11-23T18:00:00.123Z".
std::string utc_time();

// Paths and keys may hold any bytes, JSON may not: what is not UTF-8 is replaced.
std::string page_text(const nlohmann::json& page);
// Replaces the page at `path`, whole or not at all. A run does not end for want of a page about it: what stands in the
// way is logged. Blocks: on the disk.
void write_page(const std::string& path, const std::string& text);

}  // namespace offramp
