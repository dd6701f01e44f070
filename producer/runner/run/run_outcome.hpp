#pragma once

#include <cstdint>
#include <optional>

#include "common/settings/exit_code.hpp"
#include "producer/egress/run_lifecycle.hpp"
#include "producer/runner/report/run_stats.hpp"

namespace offramp {

// What a run without an error ends with, from its last stats. The numbers of samples must agree, and come from
// independent records: what the prefetcher gave out, what the egress dropped, what the broker saw published and done.
// Where they do not, that is logged, and the exit code is that of ErrorKind::CountMismatch.
struct RunOutcome {
    std::uint64_t items = 0;          // of the run's share of the source
    std::uint64_t done_before = 0;    // of those, by earlier runs
    std::optional<StopMode> stopped;  // none: it came to its end by itself

    ExitCode exit_code(const RunStats& last) const;
};

}  // namespace offramp
