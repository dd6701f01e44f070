#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "common/base/unique_fd.hpp"

namespace offramp {

// Which folder or file that is, whatever its name.
struct FileIdentity {
    dev_t device = 0;
    ino_t inode = 0;

    bool operator==(const FileIdentity&) const = default;
};

// The error of a folder whose name leads elsewhere by now. `what`: its noun.
[[noreturn]] void fail_moved(const std::string& what, const std::string& folder, const std::string& why);

// A folder that is held open: it stays the same folder when its name leads elsewhere, because it was moved away,
// unmounted, or made again.
//
// Owns the descriptor, which a program that is executed does not inherit. Thread: any. Blocks: on the file system.
// Errors: Error with CannotWrite.
class HeldFolder {
  public:
    // `folder` exists. `what`: its noun in errors, "the output folder".
    explicit HeldFolder(std::string folder, std::string what = "the output folder");

    const std::string& name() const { return name_; }
    int fd() const { return fd_.get(); }
    // Whether the path is the folder's name, or begins with it.
    bool has(const std::string& path) const;
    // For open() and its like: the same path, resolved from the descriptor. Of a path that the folder has.
    std::string through(const std::string& path) const;
    // The name still leads here. Errors: names the folder and the way back.
    void require_in_place() const;

  private:
    std::string name_, absolute_, what_;
    UniqueFd fd_;
    FileIdentity identity_;
};

// Names that begin so are ours, in every folder of an output: temporary files, segments, the checkpoint. No sample may
// claim one.
inline constexpr std::string_view kReservedPrefix = ".offramp-";

}  // namespace offramp
