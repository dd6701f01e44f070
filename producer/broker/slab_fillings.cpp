#include "producer/broker/slab_fillings.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace offramp {
namespace {

constexpr std::size_t kMostFailedDeliveries = 64;  // of one filling, that are remembered

}  // namespace

std::optional<TimePoint> SlabFillings::delivered_at(std::uint32_t slab, std::uint32_t attempt) const {
    const Filling& filling = fillings_[slab];
    if (filling.attempt == attempt) return filling.leased_at;
    const auto known = std::ranges::find(filling.failed, attempt, &DeliveryRecord::attempt);
    if (known == filling.failed.end()) return std::nullopt;
    return TimePoint(std::chrono::nanoseconds(known->delivered_at_ns));
}

void SlabFillings::note_failed(std::uint32_t slab, std::uint32_t attempt, const Peer& peer, const char* end,
                               bool charged, std::string why) {
    Filling& filling = fillings_[slab];
    const auto known = std::find_if(filling.failed.begin(), filling.failed.end(), [&](const DeliveryRecord& record) {
        return record.attempt == attempt && record.session == admission_of(peer.ref.session);
    });
    DeliveryRecord record{.attempt = attempt,
                          .pid = static_cast<std::uint64_t>(peer.credentials.pid),
                          .session = admission_of(peer.ref.session),
                          .delivered_at_ns = to_ns(filling.leased_at),
                          .ended_at_ns = to_ns(clock_.now()),
                          .end = end,
                          .charged = charged,
                          .why = std::move(why)};
    if (known != filling.failed.end()) {
        record.delivered_at_ns = known->delivered_at_ns;
        *known = std::move(record);
        return;
    }
    if (filling.failed.size() >= kMostFailedDeliveries) filling.failed.erase(filling.failed.begin());
    filling.failed.push_back(std::move(record));
}

}  // namespace offramp
