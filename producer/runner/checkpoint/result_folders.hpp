#pragma once

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "common/app/settings/sections/result_settings.hpp"
#include "common/base/held_folder.hpp"

namespace offramp {

// The folders besides the output folder that a run's consumers write to: one per processor if there are several, that
// of --write-path, a job's. Held open as soon as they exist.
//
// Owns the open folders. Thread: one at a time. Blocks: on the file system. Errors: Error with CannotWrite.
class ResultFolders {
  public:
    ResultFolders(const ResultSettings& config, const std::string& write_path);

    // Checks that each name still leads to the folder that it led to at the first call that found one.
    void require_in_place();

  private:
    void await(const std::string& folder, const std::string& what);

    std::vector<std::pair<std::string, std::string>> awaited_;  // folder, what it is
    std::deque<HeldFolder> held_;
};

}  // namespace offramp
