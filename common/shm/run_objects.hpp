#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/unique_fd.hpp"

namespace offramp {

// The names of a run's shared-memory objects. All carry the run's id and a random nonce, so that no two runs
// meet:
//   /offramp-RUNID-NONCE.lock    held with a shared lock by every process of the run
//   /offramp-RUNID-NONCE.ledger  /offramp-RUNID-NONCE.cells  /offramp-RUNID-NONCE.s0 .s1 ...
struct RunNames {
    std::string run_id;
    std::uint64_t nonce = 0;

    std::string lock() const;
    std::string ledger() const;
    std::string cells() const;
    std::string span(std::uint32_t index) const;

    // A run id from the letters, digits, '.', '_' and '-', at most 48 bytes. Errors: ConfigError with the
    // value.
    static void check_run_id(const std::string& run_id);
    static std::uint64_t random_nonce();

    // The nonce as names and the endpoint have it: 16 hexadecimal digits.
    std::string nonce_text() const;
    // Nothing for what is not 16 hexadecimal digits.
    static std::optional<std::uint64_t> nonce_in(std::string_view digits);
};

// Holds the shared lock that means "a process of this run lives". Released by the kernel when the process dies; a
// forked child does not hold it.
class RunLock {
  public:
    // `create`: the producer makes the lock object (0600, or 0640 for a group), before any other object of the run;
    // consumers pass false. The object stays when the lock is given back: sweep_run() removes it, last of all. Errors:
    // SystemError; ErrorKind::NoSuchRun if the object does not exist or is being swept, NotPermitted when it is another
    // user's and not for a group.
    static RunLock hold(const RunNames& names, bool create, bool readable_by_group = false);

  private:
    explicit RunLock(UniqueFd fd) : fd_(std::move(fd)) {}
    ProcessOwnFd fd_;
};

// Removes the objects of runs that no process holds any more: only those of this user, only when the exclusive lock on
// the run's lock object is got, only while its name still refers to the locked inode, never another run's. Returns the
// names removed. Errors are logged and skipped: a sweep never stops a start.
std::vector<std::string> sweep_dead_runs();

// The same for one run, by who leaves it: true when nothing of it is left. A RunLock of the calling process counts as a
// life: give it back first. Blocks: for `patience` at the most, while another process sweeps this run. That one may die
// half-way, and then the rest is done here; it does not wait for a living process, which will sweep the run when it
// leaves.
bool sweep_run(const RunNames& names, std::chrono::milliseconds patience = std::chrono::seconds(5));

// How a producer starts its run. What a predecessor left in the run's directory, its memory and its name is replaced
// by a run that is begun, and stays and is gone on with where a dead producer's run is recovered.
enum class RunStart { Begun, Recovered };

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
