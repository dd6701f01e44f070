#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "common/base/unique_fd.hpp"
#include "common/shm/run_objects.hpp"

namespace offramp {

// The steps that RunLock and the sweep are made of: the file behind a run's lock name, opened, and the flock
// on it. The lock is that of the open file (flock): closing it, or the death of the last process that
// inherited it, gives it back. Between opening and locking the name may have come to stand for another file,
// so check still_named() before you act.
class RunLockFile {
  public:
    // Nothing if the file does not exist. Never follows a link. Errors: SystemError, also if it is not a regular file.
    static std::optional<RunLockFile> open(const RunNames& names);
    // The same to sweep the run: its owner's alone, as a turn needs the right to write.
    static std::optional<RunLockFile> open_to_sweep(const RunNames& names);
    // Nothing when the name is taken.
    static std::optional<RunLockFile> create(const RunNames& names, mode_t mode);

    // Blocks while a sweep holds the file.
    void lock_shared();
    bool try_lock_shared();
    bool try_lock_exclusive();
    // Sweeps are serialized by a second lock that the lives of a run do not touch. Who has the turn and is refused the
    // exclusive lock knows that a life refuses it, and not another sweep, which may die before it is done. Given back
    // as the other. False: another has it, after `patience` still. Of a file that is open to sweep.
    bool take_turn(std::chrono::milliseconds patience);
    // The name still refers to the file that is open here.
    bool still_named() const;

    uid_t owner() const { return owner_; }
    mode_t mode() const { return mode_; }
    UniqueFd take_fd() && { return std::move(fd_); }

  private:
    RunLockFile(UniqueFd fd, std::string path);
    static std::optional<RunLockFile> open(const RunNames& names, int access);
    bool lock(int operation);

    UniqueFd fd_;
    std::string path_;
    dev_t device_ = 0;
    ino_t inode_ = 0;
    uid_t owner_ = 0;
    mode_t mode_ = 0;
};

}  // namespace offramp
