#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "common/base/unique_fd.hpp"
#include "producer/runner/checkpoint/files_of_run.hpp"

namespace offramp {

// OUTPUT/.offramp-replaced: single items whose files a run may have replaced before its own checkpoint replaces the
// predecessor's. Text, sealed lines (producer/runner/checkpoint/sealed_line.hpp):
//
//   {"xxh3":"HASH","former":"SEAL"}                  first, only there: the seal of the predecessor's header; the file
//   is valid while that checkpoint is there
//   {"xxh3":"HASH","processors":"npy,write","write-path":"/results"}    whose files: those of a run of these
//   processors, for the items below
//   {"xxh3":"HASH","items":"0123456789abcdef..."}    hashes of the items' names, of tiles their pictures', 16 digits
//   each
//
// Items above the first line of processors, as in older files, apply to any processor. A run that continues the
// predecessor processes these items again: a file of that name may be another run's. Successive runs that record
// nothing add to the file. A line is written before its items are handed out; items of a torn line never were.
//
// Owns the file, once it has items. Thread: add() from any. Blocks: on the file. Errors: SystemError with CannotWrite,
// ConfigError when it is not an ordinary file.
class ReplacedItems {
  public:
    using Hashes = std::unordered_set<std::uint64_t>;
    using ByFiles = std::map<std::optional<FilesOfRun>, Hashes>;  // nothing: those of any processor

    // `seal`: of the checkpoint in the folder. `files`: of this run. `flush`: added items survive a power cut.
    ReplacedItems(const std::string& folder, std::string seal, FilesOfRun files, bool flush);

    // Items added earlier for the same checkpoint; nothing when there is no such file.
    static Hashes of(const std::string& folder, const std::string& seal);
    static ByFiles by_files(const std::string& folder, const std::string& seal);
    // True if the file is valid for this checkpoint, with or without items.
    static bool counts(const std::string& folder, const std::string& seal);
    static void remove(const std::string& folder);

    void add(std::span<const std::uint64_t> hashes);

  private:
    void begin();

    const std::string folder_, path_, seal_;
    const FilesOfRun files_;
    const bool flush_;
    std::mutex mutex_;  // guards the file
    UniqueFd file_;
};

}  // namespace offramp
