#pragma once

#include <cstdint>
#include <deque>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "common/base/duration_histogram.hpp"
#include "producer/broker/broker_report.hpp"

namespace offramp {

// The pages about a run: status.json whole, and the broker's part of summary.json. Pure, except for the clock and the
// file. Thread: any.

nlohmann::json totals_json(const SlabTotals& totals);
// Releases by outcome: only the first four changed anything.
nlohmann::json releases_json(const BrokerReport& broker);
enum class WhichConsumers { Living, All };
nlohmann::json consumers_json(const BrokerReport& broker, WhichConsumers which);
// In a run with groups of consumers: what each has done, and what waits for it.
nlohmann::json groups_json(const BrokerReport& broker);

// Fields of the status that the broker does not know. Absent: the run does not measure it; the page has null.
struct StatusFields {
    std::string state, run_id;
    std::uint64_t producers = 1;
    std::uint64_t at_ns = 0;        // CLOCK_MONOTONIC
    std::uint64_t done_before = 0;  // samples, by earlier runs that this one continues
    std::optional<std::uint64_t> total_samples;
    std::optional<double> gpu_utilization;
    std::string limiting_stage;
    WhichConsumers consumers = WhichConsumers::Living;
    std::uint64_t skipped = 0;
    std::string failure;              // empty: the message is the broker's
    std::string device, device_uuid;  // DeviceInfo::word() and uuid
    std::uint64_t began_ns = 0;       // CLOCK_MONOTONIC, of the run's first producer
    std::uint64_t shm_bytes = 0;
    std::optional<double> pinned_bytes_per_second;
    std::optional<double> input_wait_seconds, slab_wait_seconds, output_wait_seconds;
    SlabTotals dropped;                             // samples without a free slab
    std::optional<DurationHistogram> compute, d2h;  // by batches, by copies
};
// The fields that every status.json has (launch/guide/reference/status-json.md). Rates and shares cover the `seconds`
// from `before` to `now`. The writer may add fields.
nlohmann::json status_page(const BrokerReport& before, const BrokerReport& now, double seconds,
                           const StatusFields& fields);

double per_second(double amount, double seconds);
// The share of `seconds` that was spent on work. Work counts when it is finished: with none finished and some under
// way, the share is unknown.
std::optional<double> share_of(double busy_seconds, double seconds, bool something_goes_on);
double seconds_between(std::uint64_t from_ns, std::uint64_t to_ns);

// The moments of the last ten seconds: rates over less would show batches of several seconds as zero, then as a jump.
// Moment::at_ns is CLOCK_MONOTONIC. Thread: one.
template <class Moment>
class RecentMoments {
  public:
    // Keeps `now`, and returns the moment from which rates are counted: `now` itself if no earlier one is kept.
    const Moment& earliest_before(const Moment& now) {
        while (moments_.size() > 1 && moments_.front().at_ns + kSpanNs < now.at_ns) moments_.pop_front();
        if (moments_.empty() || now.at_ns >= moments_.back().at_ns + kSpanNs / kMost) moments_.push_back(now);
        return moments_.front();
    }

  private:
    static constexpr std::uint64_t kSpanNs = 10'000'000'000;
    static constexpr std::uint64_t kMost = 40;
    std::deque<Moment> moments_;  // oldest first
};

// Now, in UTC: "2026-11-23T18:00:00.123Z".
std::string utc_time();

// Paths and keys may hold any bytes, JSON may not: text that is not UTF-8 is replaced.
std::string page_text(const nlohmann::json& page);
// Replaces the page at `path`, whole or not at all. A failure is logged and does not end the run. Blocks: on the disk.
void write_page(const std::string& path, const std::string& text);

}  // namespace offramp
