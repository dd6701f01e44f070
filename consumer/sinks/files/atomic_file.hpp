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

// Writes one file that appears whole or not at all: under a hidden temporary name (".offramp-tmp-PID-N")
// beside its place, then renamed. Committing the same bytes again changes nothing, so that a sample that is
// delivered twice does no harm.
//
// While it is being written, the temporary file is locked (flock): the lock goes with the process, so that it
// distinguishes a leftover from work in progress, whatever pid namespace the writer lives in.
//
// Owns the temporary file; a destroyed, uncommitted one is removed. Thread: one at a time. Blocks: on the
// file system. Errors: SystemError with CannotWrite and the path.
class AtomicFile {
  public:
    // Makes the parent folders as needed, in the folders that are held (HeldOutput) or by name. `what`: what errors
    // call the file, before its path.
    explicit AtomicFile(std::string path, Durability durability = Durability::Process, std::string_view what = {});
    AtomicFile(const AtomicFile&) = delete;
    AtomicFile& operator=(const AtomicFile&) = delete;

    void write(std::span<const std::byte> bytes);
    // Sets the length: bytes after the written ones read as zeros, and use no space.
    void set_size(std::uint64_t bytes);
    // Puts the file in its place, instead of one that may be there. The last call.
    void commit();
    // Instead: where one is there, that one stays, and this one is gone.
    void commit_if_none();

  private:
    bool try_open_temporary();
    void flush_bytes();
    void flush_name();

    std::string path_, opened_path_;  // the second from the folder that is held (HeldOutput)
    std::string named_;               // in errors
    Durability durability_;
    std::optional<WholeFile> file_;  // until it is committed
};

void write_atomically(const std::string& path, std::span<const std::byte> bytes,
                      Durability durability = Durability::Process);

// Puts a file that is whole in the place of another, or of none, by one rename.
void replace_file(const std::string& whole, const std::string& path);

// Removes a file, or nothing where there is none. With PowerCut its name is gone from the disk when this returns.
void remove_file(const std::string& path, Durability durability);

// Makes the folder where there is none, and those around it; of a held output only below that (HeldOutput). Errors: as
// of AtomicFile.
void make_folder_of_results(const std::string& folder);

// Makes the folder and proves, with a temporary file, that it can be written. Errors: SystemError with
// CannotWrite.
void require_writable_folder(const std::string& folder);

// Removes the temporary files that dead processes left anywhere below the folder, and returns their number. One whose
// writer lives is left alone, as is one on a file system that cannot lock. Symbolic links are not followed. A folder
// that does not exist has none. Errors: SystemError with CannotWrite when one cannot be removed.
std::size_t remove_stale_temporaries(const std::string& folder);

// The error of a file or folder that cannot be written: names the attempt (with the path), errno, and the fix.
SystemError write_error(const std::string& tried, int errno_value);

}  // namespace offramp
