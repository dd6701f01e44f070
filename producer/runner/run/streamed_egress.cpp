#include "producer/runner/run/streamed_egress.hpp"

#include <utility>

namespace offramp {

std::unique_ptr<EgressPath> StreamedEgress::make_path(EgressParts parts) {
    return std::make_unique<EgressStream>(parts.device, std::move(parts.exchange), parts.layout, parts.timeline,
                                          std::move(parts.options), std::move(parts.on_failure));
}

}  // namespace offramp
