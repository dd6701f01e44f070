#pragma once

#include <cstdint>
#include <optional>

#include "common/app/settings/exit_code.hpp"
#include "producer/egress/run_lifecycle.hpp"
#include "producer/runner/report/run_stats.hpp"

namespace offramp {

// The exit code of a run without an error, from its last stats. The numbers of samples must agree; they come from
// independent records: items given out by the prefetcher, dropped by the egress, published and completed at the broker.
// A mismatch is logged, and the exit code is that of ErrorKind::CountMismatch.
struct RunOutcome {
    std::uint64_t items = 0;          // of the run's share of the source
    std::uint64_t done_before = 0;    // of those, by earlier runs
    std::optional<StopMode> stopped;  // none: it ended by itself

    ExitCode exit_code(const RunStats& last) const;
};

}  // namespace offramp
