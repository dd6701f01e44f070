#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "common/app/settings/sections/result_settings.hpp"
#include "consumer/sinks/segments/segment_merge.hpp"
#include "consumer/sinks/segments/shard_parts.hpp"

namespace offramp {

// The existing files in the place of a run's output.
struct PreviousOutput {
    enum class State {
        None,
        Parts,    // of a run that did not come to its end
        Results,  // its checkpoint, if it still exists, records whether the run ended
        Ended,    // of a run that did
    };
    State state = State::None;
    std::string what;  // "FILE", "table ... of ...", for errors
};

// An output that all consumers of a run append to, and the steps on it before the run and after its end, when no
// consumer is there. Each call may be killed, and is made again. `own`: with the name and folder of the processor
// that it is of (own_results). If a previous run's results are in that folder, a new run's go into `next`, a folder in
// it (common/app/program/next_place.hpp), and take their place at its end.
class RunOutput {
  public:
    virtual ~RunOutput() = default;

    // Changes nothing. `own.resume`: the existing results are to be continued. Errors: ConfigError if they are foreign.
    virtual PreviousOutput look(const ResultSettings& own) const = 0;
    // Finishes the contents of `folder`, which is own.output or `next`; for a resumed run, together with earlier
    // results.
    virtual void finish(const ResultSettings& own, const std::string& folder, const std::string& next_place) const = 0;
    // The run has come to its end: that is not forgotten without its checkpoint. For those whose results may be reached
    // without the folder.
    virtual void note_end(const ResultSettings& /*own*/, const std::string& /*folder*/,
                          const std::string& /*next_place*/) const {}
    // The run has not come to its end, and may be continued. For outputs that report something then. Changes
    // nothing.
    virtual void note_broken_off(const ResultSettings& /*own*/, const std::string& /*folder*/) const {}
    // Moves the finished files in `next` over those in own.output: by rename, one after the other. Completes an
    // interrupted call. Files that the run did not make stay. Errors: those of look(), before anything is replaced;
    // SystemError with CannotWrite.
    virtual void put_in_place(const ResultSettings& own, const std::string& next,
                              const std::string& next_place) const = 0;
    // Removes what belongs to `next`, which cannot be continued, but is elsewhere. False: some of it is in a place that
    // only `next` names, not these settings.
    virtual bool remove_next(const ResultSettings& /*own*/, const std::string& /*next*/,
                             const std::string& /*next_place*/) const {
        return true;
    }
    // Joins the finished outputs of a job's shards in own.output, as one run would have written them. Does nothing if
    // the shards share one output. Errors: those of finish() and put_in_place().
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

}  // namespace offramp
