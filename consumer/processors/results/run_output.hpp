#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "common/app/settings/sections/result_settings.hpp"
#include "consumer/sinks/segments/segment_merge.hpp"
#include "consumer/sinks/segments/shard_parts.hpp"

namespace offramp {

// What lies where a run's output goes.
struct PreviousOutput {
    enum class State {
        None,
        Parts,    // of a run that did not come to its end
        Results,  // whether of a run that did says its checkpoint, if it is there still
        Ended,    // of a run that did
    };
    State state = State::None;
    std::string what;  // "FILE", "table ... of ...", for errors
};

// What all consumers of a run append to together, and what is done with it while none of them is there: before a run,
// and when it has ended. Each call may be killed, and is made again. `own`: with the name and folder of the processor
// that it is of (own_results). Where a previous run's results lie in that folder, a run's own go into `next`, a folder
// in it (common/app/program/next_place.hpp), and take their place at its end.
class RunOutput {
  public:
    virtual ~RunOutput() = default;

    // Changes nothing. `own.resume`: what lies there is to be continued. Errors: ConfigError when it is somebody
    // else's.
    virtual PreviousOutput look(const ResultSettings& own) const = 0;
    // Makes of what lies in `folder`, which is own.output or `next`, what the run promises; of a run that continues
    // another, with what is there.
    virtual void finish(const ResultSettings& own, const std::string& folder, const std::string& next_place) const = 0;
    // The run has come to its end: that is not forgotten without its checkpoint. For those whose results may be reached
    // without the folder.
    virtual void note_end(const ResultSettings& /*own*/, const std::string& /*folder*/,
                          const std::string& /*next_place*/) const {}
    // The run has not come to its end, and may be continued. For outputs that report something then. Changes
    // nothing.
    virtual void note_broken_off(const ResultSettings& /*own*/, const std::string& /*folder*/) const {}
    // What is finished in `next` takes the place of what lies in own.output: by rename, one file after the other. Does
    // the rest of it when it was killed. What the run made nothing of stays. Errors: those of look(), before anything
    // is replaced; SystemError with CannotWrite.
    virtual void put_in_place(const ResultSettings& own, const std::string& next,
                              const std::string& next_place) const = 0;
    // What belongs to `next`, which cannot be continued, and does not lie in it. False: some of it is where these
    // settings do not lead, and `next` says where.
    virtual bool remove_next(const ResultSettings& /*own*/, const std::string& /*next*/,
                             const std::string& /*next_place*/) const {
        return true;
    }
    // Of a job: makes in own.output what one run would have made there, of what the runs of its shards finished.
    // Nothing to be done where shards append to one and the same. Errors: those of finish() and put_in_place().
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

// Removes temporary files of dead consumers, and says so.
void remove_leftovers(const std::string& folder);

}  // namespace offramp
