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

// OUTPUT/.offramp-replaced: files of which single items a run may have put in the place of the previous run's, before
// its own checkpoint takes the place of the predecessor's. Text, sealed lines
// (producer/runner/checkpoint/sealed_line.hpp):
//
//   {"xxh3":"HASH","former":"SEAL"}                  first, only there: the seal of the predecessor's header, as long
//   as whose checkpoint is there this counts
//   {"xxh3":"HASH","processors":"npy,write","write-path":"/results"}    which of their files: those of a run of these
//   processors. Of the items below it
//   {"xxh3":"HASH","items":"0123456789abcdef..."}    hashes of the items' names, of tiles their
//   pictures', 16 digits each
//
// Items above the first line of processors, as in files that were written without such lines, are of any processor.
// Whoever continues the predecessor makes these items again: a file of that name may be another run's. Runs that come
// to nothing one after the other add to it. A line is written before anybody can have its items; a torn one is of items
// that nobody had.
//
// Owns the file, once it has items. Thread: add() from any. Blocks: on the file. Errors: SystemError with CannotWrite,
// ConfigError when it is not an ordinary file.
class ReplacedItems {
  public:
    using Hashes = std::unordered_set<std::uint64_t>;
    using ByFiles = std::map<std::optional<FilesOfRun>, Hashes>;  // nothing: those of any processor

    // `seal`: of the checkpoint that lies in the folder. `files`: of this run. `flush`: what is added survives a power
    // cut.
    ReplacedItems(const std::string& folder, std::string seal, FilesOfRun files, bool flush);

    // Those that were added before, for the same checkpoint; nothing when there is no such file.
    static Hashes of(const std::string& folder, const std::string& seal);
    static ByFiles by_files(const std::string& folder, const std::string& seal);
    // The file counts for this checkpoint, with or without items.
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
