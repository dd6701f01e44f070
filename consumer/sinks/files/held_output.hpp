#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "common/base/held_folder.hpp"
#include "common/base/unique_fd.hpp"

namespace offramp {

// Holds this process's result folders open. Sinks write files relative to them, and create folders only below them. A
// subfolder that has taken a result must stay, too: it is not created again once it is gone. All sinks of a process use
// one object; without it, they write files by name. The processes of a run share notes of their subfolders in
// a file, so that none of them creates a folder again that holds another one's results. Without access to that file,
// and beyond 131,072 folders, a process notes its own subfolders alone.
//
// Owns the folders. Thread: one. Blocks: on the file system. Errors: Error with CannotWrite.
class HeldOutput {
  public:
    HeldOutput();
    HeldOutput(const HeldOutput&) = delete;
    HeldOutput& operator=(const HeldOutput&) = delete;
    ~HeldOutput();

    // Holds `folder`, which must exist, and returns it. May be called again for a held folder.
    const HeldFolder& hold(const std::string& folder, const std::string& what);
    // Shares the notes of subfolders with all processes that pass the same `file`, which is created if its folder
    // exists and this user may write to it. Call it once.
    void share_notes(const std::string& file);
    // Checks every folder in the notes that is `folder` or below it. Errors: it is gone or replaced.
    void require_noted(const std::string& folder);
    // Checks that every name still leads to its folder: for held folders, and for subfolders that took results since
    // the last call. Call it before results count as done.
    void require_in_place();

    // The path to pass to open() and similar calls: resolved from the held folder that contains it, or unchanged if
    // there is none.
    static std::string through(const std::string& path);
    static bool holds(const std::string& folder);
    // Call when `folder`, which exists or is about to be created, is about to take a result. Errors: it took results
    // before, and is now gone or replaced.
    static void require_same(const std::string& folder);

  private:
    const HeldFolder* around(const std::string& path) const;
    void take_note(const HeldFolder& root, const std::string& folder);
    void require_known(const std::string& folder) const;
    void note(const std::string& folder, FileIdentity identity);
    void read_notes();

    std::deque<HeldFolder> folders_;
    UniqueFd notes_;      // "DEVICE INODE FOLDER\0", appended by every process; the first note of a folder counts
    off_t read_to_ = 0;   // appending moves the file's own offset
    std::string unread_;  // the beginning of a note whose end was not there yet
    std::unordered_map<std::string, FileIdentity> known_;  // subfolders that took results
    std::unordered_set<std::string> used_;                 // the ones used since the last require_in_place()
};

}  // namespace offramp
