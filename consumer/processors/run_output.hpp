#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "common/config/run_config.hpp"
#include "consumer/sinks/postgres_table.hpp"
#include "consumer/sinks/segment_merge.hpp"

namespace offramp {

// What all consumers of a run append to together, and what is done with it while none of them is there: before a run that continues no other, and when a run has
// ended. Each call may be killed, and is made again. `own`: the settings of the processor whose folder it is in (configs_of).
class RunOutput {
  public:
    virtual ~RunOutput() = default;

    // Also looked for in other processors' folders, which may be those of an earlier run that had this one.
    virtual bool in_any_folder() const { return false; }
    // What lies in its place is an earlier run's, or nothing. Changes nothing. Errors: ConfigError when it is somebody else's.
    virtual void require_replaceable(const RunConfig& /*own*/) const {}
    // Errors: those of require_replaceable(), before anything is removed; SystemError with CannotWrite.
    virtual void remove(const RunConfig& own) const = 0;
    // Makes of it what the run promises; of a run that continues another, with what is there. There may be no output folder.
    virtual void finish(const RunConfig& own) const = 0;
};

// Segments of `series` (SegmentFile), of which `merge` makes OUTPUT/`file`. Errors: those of `merge`.
using MergeSegments = MergeOutcome (*)(const std::string& folder, std::string_view name, const std::string& output_file, FormerOutput former, Durability durability);
std::unique_ptr<RunOutput> merged_segments(std::string series, std::string file, MergeSegments merge);
std::unique_ptr<RunOutput> merged_lines(std::string series, std::string file);

// The database OUTPUT/`name`.sqlite. Errors: those of OutputDatabase.
std::unique_ptr<RunOutput> shared_database(std::string name);

// A table in the database of --sink. `complete`, if any, adds what it has only when it is whole. Errors: those of PostgresTable.
using CompleteTable = std::function<void(PostgresDatabase& database, const RunConfig& own)>;
std::unique_ptr<RunOutput> postgres_rows(const PostgresLayout& layout, CompleteTable complete = {});

// The place of a processor's table in the database of --sink, which may be empty.
PostgresTarget postgres_target_of(const RunConfig& own, std::string_view contents);

// Removes temporary files of dead consumers, and says so.
void remove_leftovers(const std::string& folder);

}  // namespace offramp
