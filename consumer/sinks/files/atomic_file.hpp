#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "common/base/error.hpp"
#include "common/base/files.hpp"

namespace offramp {

// Writes one file that appears whole or not at all: it has a hidden temporary name (".offramp-tmp-PID-N") in the same
// folder, and is then renamed. Committing the same bytes again changes nothing, so repeated delivery of a sample is
// harmless.
//
// The temporary file stays locked (flock) while it is written. The lock ends with the process, and so distinguishes
// work in progress from a leftover in every pid namespace.
//
// Owns the temporary file, and removes it on destruction if it is not committed. Thread: one at a time. Blocks: on the
// file system. Errors: SystemError with CannotWrite and the path.
class AtomicFile {
  public:
    // Creates missing parent folders, relative to held folders (HeldOutput) or by name. `what`: the kind of file, which
    // errors put before its path.
    explicit AtomicFile(std::string path, Durability durability = Durability::Process, std::string_view what = {});
    AtomicFile(const AtomicFile&) = delete;
    AtomicFile& operator=(const AtomicFile&) = delete;

    void write(std::span<const std::byte> bytes);
    // Sets the length. Bytes after the written ones read as zeros and use no space.
    void set_size(std::uint64_t bytes);
    // Moves the file to its path and replaces an existing one. Make no further calls.
    void commit();
    // Like commit(), but an existing file stays and this one is removed.
    void commit_if_none();

  private:
    bool try_open_temporary();
    void flush_bytes();
    void flush_name();

    std::string path_, opened_path_;  // opened_path_: relative to the held folder (HeldOutput)
    std::string named_;               // as errors name it
    Durability durability_;
    std::optional<WholeFile> file_;  // until it is committed
};

void write_atomically(const std::string& path, std::span<const std::byte> bytes,
                      Durability durability = Durability::Process);

// Renames `whole`, a complete file, to `path`, and replaces an existing one.
void replace_file(const std::string& whole, const std::string& path);

// As flush_names(), for a folder of results.
void flush_folder(const std::string& folder);

// Creates the folder and its parents if they are missing; in a held output, only folders below the held one
// (HeldOutput). Errors: as for AtomicFile.
void make_folder_of_results(const std::string& folder);

// Creates the folder and proves, with a temporary file, that it is writable. Errors: SystemError with CannotWrite.
void require_writable_folder(const std::string& folder);

// Removes the temporary files that dead processes left anywhere below the folder, and returns their number. It keeps a
// file whose writer lives, and every file on a file system without locks. It does not follow symbolic links, and
// returns 0 for a missing folder. Errors: SystemError with CannotWrite when a file cannot be removed.
std::size_t remove_stale_temporaries(const std::string& folder);

// The error for a file or folder that cannot be written: names the attempt (with the path), errno, and the fix.
SystemError write_error(const std::string& tried, int errno_value);

}  // namespace offramp
