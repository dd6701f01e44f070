#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "consumer/sinks/durability.hpp"

namespace offramp {

struct MergeOutcome {
    std::size_t segments = 0;
    std::size_t kept = 0;       // items of the former output
    std::size_t items = 0;
    std::size_t repeats = 0;    // items that were there already, with the same lines
    std::size_t conflicts = 0;  // items that were there with other lines: the latest segment's are kept
};

// What becomes of the items of an output file that is there already.
enum class FormerOutput {
    Replaced,   // they are another run's
    KeptIn,     // they are this work's too, of an earlier run: each stays, unless a segment has it
};

// Makes one file of all segments of a series: every item once, sorted by number; then removes the segments.
// Without segments it leaves `output_file` as it is. Deliveries of the same samples, however often and
// however grouped, merge to the same bytes.
//
// Killed at any point and called again, the result is the same: the file is replaced whole, then the
// segments' folder is renamed in one step, then removed. Call it when nobody writes segments any more.
// Memory: the segments' bytes. Errors: SystemError with CannotWrite; ProtocolError for a damaged segment, by
// name.
MergeOutcome merge_segments(const std::string& folder, std::string_view name, const std::string& output_file,
                            FormerOutput former = FormerOutput::Replaced, Durability durability = Durability::Process);
// Removes output file and segments.
void remove_series(const std::string& folder, std::string_view name, const std::string& output_file);

}  // namespace offramp
