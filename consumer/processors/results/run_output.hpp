#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "common/app/settings/sections/result_settings.hpp"
#include "consumer/sinks/segments/segment_merge.hpp"

namespace offramp {

// An output that all consumers of a run append to, and the steps on it before the run and after its end, when no
// consumer is there. Each call may be killed, and is made again. `own`: with the name and folder of the processor
// that it is of (own_results).
class RunOutput {
  public:
    virtual ~RunOutput() = default;

    // What earlier runs left there, for errors: "FILE", "table ... of ..."; empty: nothing. Changes nothing.
    // `own.resume`: it is to be continued. Errors: ConfigError if it is foreign.
    virtual std::string look(const ResultSettings& own) const = 0;
    // A new run starts with --overwrite, and the launcher has renamed the folder. True: renamed what look() found,
    // which is elsewhere.
    virtual bool set_aside(const ResultSettings& /*own*/, const std::string& /*run_id*/) const { return false; }
    // Finishes the results; for a resumed run, together with earlier ones.
    virtual void finish(const ResultSettings& own) const = 0;
    // The run has come to its end: that is not forgotten without its checkpoint. For those whose results may be reached
    // without the folder.
    virtual void note_end(const ResultSettings& /*own*/) const {}
    // The run has not come to its end, and may be continued. For outputs that report something then. Changes
    // nothing.
    virtual void note_broken_off(const ResultSettings& /*own*/) const {}
    // The run has made nothing: undoes set_aside(). May be killed and called again.
    virtual void put_back(const ResultSettings& /*own*/, const std::string& /*run_id*/) const {}
    // Joins the finished outputs of a job's shards in own.output, as one run would have written them. Does nothing if
    // the shards share one output. Errors: those of finish().
    virtual void join(const ResultSettings& /*own*/, std::span<const ShardPart> /*parts*/) const {}
};

// Segments of `series` (SegmentFile), of whose records, of this form, OUTPUT/`file` is made. `is_offramp_file`: by its
// form, a file that was made so; one that cannot be opened is not. Errors: those of merge_segments(), and of the form.
using IsOfframpFile = bool (*)(const std::string& file);
std::unique_ptr<RunOutput> merged_segments(std::string series, std::string file, const SegmentForm& form,
                                           IsOfframpFile is_offramp_file);
// `has_first_line`: a line, as the first one of such a file is.
using HasFirstLine = bool (*)(std::string_view line);
std::unique_ptr<RunOutput> merged_lines(std::string series, std::string file, HasFirstLine has_first_line);

// OUTPUT/records.jsonl, with the records that a custom processor commits (consumer/hosts).
inline constexpr std::string_view kOthersRecords = "records";
inline constexpr std::string_view kOthersRecordsFile = "records.jsonl";
std::unique_ptr<RunOutput> records_of_others();

// The database OUTPUT/`name`.sqlite. Errors: those of OutputDatabase.
std::unique_ptr<RunOutput> shared_database(std::string name);

// Removes temporary files of dead consumers, and logs that.
void remove_leftovers(const std::string& folder);

// The working files of a run with --tile beside its masks: the canvases of pictures whose tiles are combined
// (segmentation/tile_canvas.hpp). They stay as long as the run can be continued. Its end removes those of complete
// masks; one of a picture with unreadable tiles is kept for --resume, which retries these, and is reported as a
// warning, also when a run is broken off. Errors: SystemError with CannotWrite.
std::unique_ptr<RunOutput> tile_canvases();

}  // namespace offramp
