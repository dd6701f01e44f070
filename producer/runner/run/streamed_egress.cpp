#include "producer/runner/run/streamed_egress.hpp"

#include <utility>

namespace offramp {

std::unique_ptr<EgressPath> StreamedEgress::make_path(EgressParts parts) {
    return make_stream_path(std::move(parts.path));
}

}  // namespace offramp
