#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "common/base/held_folder.hpp"

namespace offramp {

// The folders that this process's results go to, held open: files are written relative to them, and folders are made
// only below them. A folder below that has taken a result must stay, too: it is not made again once it is gone. One
// object in a process, which all sinks go by; without it, files are written by name.
//
// Owns the folders. Thread: one. Blocks: on the file system. Errors: Error with CannotWrite.
class HeldOutput {
  public:
    HeldOutput();
    HeldOutput(const HeldOutput&) = delete;
    HeldOutput& operator=(const HeldOutput&) = delete;
    ~HeldOutput();

    // `folder` exists. Returns it; harmless for one that is held.
    const HeldFolder& hold(const std::string& folder, const std::string& what);
    // Every name still leads to its folder: of those that are held, and of those below that took results since the last
    // call. Before results count as done.
    void require_in_place();

    // For open() and its like: resolved from the held folder that the path is in; as it is where none is.
    static std::string through(const std::string& path);
    static bool holds(const std::string& folder);
    // `folder` is about to take a result, and is there, or is about to be made. Errors: it took some before, and is
    // gone or another.
    static void require_same(const std::string& folder);

  private:
    const HeldFolder* around(const std::string& path) const;
    void take_note(const HeldFolder& root, const std::string& folder);
    void require_known(const std::string& folder) const;

    std::deque<HeldFolder> folders_;
    std::unordered_map<std::string, FileIdentity> known_;  // folders below that took results
    std::unordered_set<std::string> used_;                 // of these, since the last require_in_place()
};

}  // namespace offramp
