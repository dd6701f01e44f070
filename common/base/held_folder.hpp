#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "common/base/unique_fd.hpp"

namespace offramp {

// Identifies a folder or file independent of its name.
struct FileIdentity {
    dev_t device = 0;
    ino_t inode = 0;

    bool operator==(const FileIdentity&) const = default;
};

// Throws the error for a folder whose name now refers to something else. `what`: the folder's noun.
[[noreturn]] void fail_moved(const std::string& what, const std::string& folder, const std::string& why);

// A folder that is held open. It stays the same folder even if its name refers to another one, because the folder was
// moved, unmounted, or created again.
//
// Owns the descriptor, which is closed on exec. Thread: any. Blocks: on the file system. Errors: Error with
// CannotWrite.
class HeldFolder {
  public:
    // `folder` must exist. `what`: its noun in errors, "the output folder".
    explicit HeldFolder(std::string folder, std::string what = "the output folder");

    const std::string& name() const { return name_; }
    int fd() const { return fd_.get(); }
    // True if the path is the folder's name, or begins with it.
    bool has(const std::string& path) const;
    // The same path, resolved from the descriptor, for open() and similar calls. Requires has(path).
    std::string through(const std::string& path) const;
    // Checks that the name still refers to this folder. Errors: names the folder and the fix.
    void require_in_place() const;

  private:
    std::string name_, absolute_, what_;
    UniqueFd fd_;
    FileIdentity identity_;
};

// Offramp reserves names with this prefix in every output folder: temporary files, segments, the checkpoint. No sample
// may use one.
inline constexpr std::string_view kReservedPrefix = ".offramp-";

}  // namespace offramp
