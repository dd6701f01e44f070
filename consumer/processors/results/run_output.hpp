#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "common/app/settings/sections.hpp"
#include "consumer/sinks/segments/segment_merge.hpp"

namespace offramp {

// An output that all consumers of a run append to, and the steps on it before the run and after all consumers have
// ended. Each call may be killed and is then repeated. `own`: settings with the name and folder of the output's
// processor (own_results).
class RunOutput {
  public:
    virtual ~RunOutput() = default;

    // Describes the results of earlier runs, for errors: "FILE", "table ... of ..."; empty: none. Changes nothing.
    // `own.resume`: the run continues them. Errors: ConfigError if they are foreign.
    virtual std::string look(const ResultSettings& own) const = 0;
    // A new run starts with --overwrite, and the launcher has renamed the folder. Renames results that look() found
    // outside the folder; returns true if it did.
    virtual bool set_aside(const ResultSettings& /*own*/, const std::string& /*run_id*/) const { return false; }
    // Finishes the results. A resumed run's results are combined with earlier ones.
    virtual void finish(const ResultSettings& own) const = 0;
    // Records the end of the run, so that it survives the loss of the checkpoint. For outputs that may be reached
    // without the folder.
    virtual void note_end(const ResultSettings& /*own*/) const {}
    // The run has not ended and may be continued. Outputs may report this. Changes nothing.
    virtual void note_broken_off(const ResultSettings& /*own*/) const {}
    // The run made no results: undoes set_aside(). May be killed and called again.
    virtual void put_back(const ResultSettings& /*own*/, const std::string& /*run_id*/) const {}
    // Joins the finished outputs of a job's shards in own.output, as one run would have written them. Does nothing if
    // the shards share one output. Errors: those of finish().
    virtual void join(const ResultSettings& /*own*/, std::span<const ShardPart> /*parts*/) const {}
};

// Merges segments of `series` (SegmentFile), with records of this form, into OUTPUT/`file`. `is_offramp_file`:
// recognizes a file of this form; returns false for a file that cannot be opened. Errors: those of merge_segments() and
// of the form.
using IsOfframpFile = bool (*)(const std::string& file);
std::unique_ptr<RunOutput> merged_segments(std::string series, std::string file, const SegmentForm& form,
                                           IsOfframpFile is_offramp_file);
// `has_first_line`: recognizes the first line of such a file.
using HasFirstLine = bool (*)(std::string_view line);
std::unique_ptr<RunOutput> merged_lines(std::string series, std::string file, HasFirstLine has_first_line);

// OUTPUT/records.jsonl, the records that a custom processor commits (consumer/hosts).
inline constexpr std::string_view kOthersRecords = "records";
inline constexpr std::string_view kOthersRecordsFile = "records.jsonl";
std::unique_ptr<RunOutput> records_of_others();

// The database OUTPUT/`name`.sqlite. Errors: those of OutputDatabase.
std::unique_ptr<RunOutput> shared_database(std::string name);

// Removes temporary files of dead consumers, and logs their removal.
void remove_leftovers(const std::string& folder);

// The working files of a run with --tile, beside its masks: the canvases of pictures whose tiles are being combined
// (segmentation/tile_canvas.hpp). They stay as long as the run can be continued. The run's end removes the canvases of
// complete masks. It keeps those of pictures with unreadable tiles, so that --resume can retry these. It warns about
// them, as does an interrupted run. Errors: SystemError with CannotWrite.
std::unique_ptr<RunOutput> tile_canvases();

}  // namespace offramp
