#pragma once

#include <cstddef>
#include <cstdint>
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

// A record of a segment: a line, or what a series has instead.
struct SegmentRecord {
    std::uint64_t item = 0;
    std::size_t bytes = 0;
    const char* damage = nullptr;  // what is wrong, when it is no record
};

// What the records of a series are, and what the merged file is made of them; by default lines, and lines.
struct SegmentForm {
    SegmentRecord (*first)(std::string_view text);                                    // the one that `text` begins with
    std::string (*read_former)(const std::string& path);                              // the records of a merged file
    void (*write)(const std::string& path, std::string_view records, Durability durability);  // replaces the merged file as AtomicFile does
};
const SegmentForm& lines_form();

// Makes one file of all segments of a series: every item once, sorted by number; then removes the segments.
// Without segments it leaves `output_file` as it is. Deliveries of the same samples, however often and
// however grouped, merge to the same bytes.
//
// Killed at any point and called again, the result is the same: the file is replaced whole, then the
// segments' folder is renamed in one step, then removed. Call it when nobody writes segments any more.
// Memory: the segments' bytes. Errors: SystemError with CannotWrite; ProtocolError for a damaged segment, by
// name.
MergeOutcome merge_segments(const std::string& folder, std::string_view name, const std::string& output_file,
                            FormerOutput former = FormerOutput::Replaced, Durability durability = Durability::Process,
                            const SegmentForm& form = lines_form());
// Removes output file and segments.
void remove_series(const std::string& folder, std::string_view name, const std::string& output_file);

}  // namespace offramp
