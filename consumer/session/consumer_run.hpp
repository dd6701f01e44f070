#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "common/transport/endpoint.hpp"
#include "consumer/session/consumer_loop.hpp"
#include "consumer/session/run_search.hpp"

namespace offramp {

// The options of a consumer. The defaults are those of a consumer without a launcher.
struct ConsumerOptions {
    std::uint32_t window = 0;  // slabs held at a time; 0: chosen by the slabs' size
    std::uint64_t work = 0;    // what it will do with slabs, as the run names it (Hello's `work`)
    // for the next producer where one died; 0: its death is the end
    std::chrono::nanoseconds producer_wait{};
    // made anew for every filling: it is mapped with each, and nothing of it outlives the producer that filled it
    bool memory_per_slab = false;
    WatchedFds fds{};  // `producer` is filled in
};

// Attaches one consumer to a run and serves it to the end. The processor is made when the run has let this consumer in:
// one that is refused has made and touched nothing, and sweeps the run if it is its last process. Once it has returned,
// the last process of the run sweeps it (sweep_run()).
//
// Borrows: what `make` gives, the descriptors. Thread: the caller's, for the whole time. Blocks: for the length of the
// run. A run that is over before this consumer has joined is an orderly end if no launcher decides what follows.
// Errors: Error, as ConsumerLoop, and NoSuchRun when its memory is gone although its producer lives.
ConsumerLoop::End consume_run(const Endpoint& endpoint, const ConsumerOptions& options, const MakeOnEntry& make);

}  // namespace offramp
