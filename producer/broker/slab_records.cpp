#include "producer/broker/slab_records.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace offramp {
namespace {

constexpr std::size_t kMostFailedDeliveries = 64;  // remembered per slab

}  // namespace

std::optional<TimePoint> SlabRecords::delivered_at(std::uint32_t slab, std::uint32_t attempt) const {
    const SlabRecord& slab_record = records_[slab];
    if (slab_record.attempt == attempt) return slab_record.leased_at;
    const auto known = std::ranges::find(slab_record.failed, attempt, &DeliveryRecord::attempt);
    if (known == slab_record.failed.end()) return std::nullopt;
    return TimePoint(std::chrono::nanoseconds(known->delivered_at_ns));
}

void SlabRecords::note_failed(std::uint32_t slab, std::uint32_t attempt, const Peer& peer, const char* end,
                              bool counted, std::string why) {
    SlabRecord& slab_record = records_[slab];
    const auto known =
        std::find_if(slab_record.failed.begin(), slab_record.failed.end(), [&](const DeliveryRecord& record) {
            return record.attempt == attempt && record.session == admission_of(peer.ref.session);
        });
    DeliveryRecord record{.attempt = attempt,
                          .pid = static_cast<std::uint64_t>(peer.credentials.pid),
                          .session = admission_of(peer.ref.session),
                          .delivered_at_ns = to_ns(slab_record.leased_at),
                          .ended_at_ns = to_ns(clock_.now()),
                          .end = end,
                          .counted = counted,
                          .why = std::move(why)};
    if (known != slab_record.failed.end()) {
        record.delivered_at_ns = known->delivered_at_ns;
        *known = std::move(record);
        return;
    }
    if (slab_record.failed.size() >= kMostFailedDeliveries) slab_record.failed.erase(slab_record.failed.begin());
    slab_record.failed.push_back(std::move(record));
}

void SlabReturns::take_back(Peer& peer, std::uint64_t work, const char* how) {
    for (const SlabLedger::Revoked& held : ledger_.revoke(peer.ref, work)) {
        slab_records_.note_failed(held.slab, held.attempt, peer, how, held.counted);
        if (held.counted) {
            ++totals_.slab_failures;
            slab_records_[held.slab].killed_pids.push_back(static_cast<std::uint64_t>(peer.credentials.pid));
        }
        if (held.ready_again) ready_.put_ahead(held.slab);
    }
}

}  // namespace offramp
