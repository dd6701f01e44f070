#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace offramp {

// Where a run puts what its consumers append to together: into the output folder, or, where results of a previous run
// lie, beside them, into .offramp-next-NAME below each folder with such results. There it becomes whole, and takes the
// predecessor's place when the run has come to its end.
//
//   OUTPUT/.offramp-next            one line, NAME; none: everything is in place. Written before a run's programs start
//   (prepare_run()), for all of them OUTPUT/.offramp-next-NAME/      what an output folder has, of this run alone
//   OUTPUT/.offramp-checkpoint        has NAME too: by it a later --resume finds what it continues
//
// Blocks: on the file system. Errors: SystemError with CannotWrite; ConfigError for a name that Offramp did not make,
// which would lead elsewhere.

// Empty: in place. A link is not followed.
std::string next_place_of(const std::string& output);
// Replaces what is noted there; empty: removes it.
void note_next_place(const std::string& output, std::string_view name);
// One that no run has had.
std::string new_next_place();
// Errors: ConfigError; `from` is for them.
std::string_view checked_next_place(std::string_view name, const std::string& from);

// FOLDER/.offramp-next-NAME, or `folder` itself for no name.
std::string folder_in(const std::string& folder, std::string_view next_place);
// The names of all next places in the folder.
std::vector<std::string> next_places_in(const std::string& folder);

}  // namespace offramp
