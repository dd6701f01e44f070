#include "producer/runner/run/streamed_egress.hpp"

#include <utility>

namespace offramp {

std::unique_ptr<EgressPath> StreamedEgress::make_path(EgressParts parts) {
    return make_stream_sink(std::move(parts.sink));
}

}  // namespace offramp
