#pragma once

#include <array>
#include <string_view>

// The files in a run's directory. Readers and writers use these names. A new run in the directory uses the lists to
// find the files of the previous run.
namespace offramp::run_files {

// The folder for files that the programs of a live run share, and for the sockets.
inline constexpr const char* kLive = "live";

// A directory with one of these files belongs to a run.
inline constexpr const char* kProducerLock = "live/producer.lock";
inline constexpr const char* kLauncherLock = "live/launcher.lock";  // launch/offramp_launch/run_dir.py
inline constexpr std::array kLocks{kProducerLock, kLauncherLock};
// The output folder of a run without another one. A program's Egress may make it first, for its checkpoint.
inline constexpr const char* kOutput = "output";

// These files are useless once the producer that they describe is dead.
inline constexpr const char* kEndpoint = "live/endpoint";
inline constexpr const char* kSettings = "live/settings.toml";
inline constexpr const char* kListedRows = "live/listed-rows";        // common/app/texts
inline constexpr const char* kPictureStamps = "live/picture-stamps";  // common/app/images
inline constexpr const char* kItemShapes = "live/item-shapes";        // producer/runner/checkpoint/kept_shapes.hpp
inline constexpr const char* kResultFolders = "live/result-folders";  // consumer/sinks/files/held_output.hpp
inline constexpr std::array kOfAProducer{kEndpoint,      kSettings,   kListedRows,
                                         kPictureStamps, kItemShapes, kResultFolders};
// A folder for each group of consumers, which is a run directory to them: live/endpoint, live/settings.toml, sockets,
// dead-letters/.
inline constexpr const char* kGroups = "groups";

inline constexpr const char* kSpill = "live/spill";  // a folder; useless at the same time

// A folder: files on their way to an object store (consumer/worker/uploads.hpp). The launcher removes it
// (launch/offramp_launch/stores/place.py).
inline constexpr const char* kUploads = "live/uploads";

// A run's reports, which stay until the next run begins. A launcher moves them away (launch/offramp_launch/run_dir.py).
inline constexpr const char* kStatus = "status.json";
inline constexpr const char* kSummary = "summary.json";  // a launcher completes it
inline constexpr const char* kDropped = "dropped.jsonl";
inline constexpr std::array kAccount{kSummary, kDropped, kStatus};

// A request to a running run, and its answers (common/tracing/live_trace.hpp).
inline constexpr const char* kTraceRequest = "live/trace-request.json";
inline constexpr const char* kTraceFolder = "logs/trace-";  // with the request's id

// States in kStatus that mean the run has ended. launch/offramp_launch/progress.py has the same list.
constexpr bool is_end(std::string_view state) { return state == "ended" || state == "abandoned" || state == "failed"; }

}  // namespace offramp::run_files
