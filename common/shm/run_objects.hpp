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

// The names of a run's shared-memory objects. All contain the run's id and a random nonce, so that runs do not collide:
//   /offramp-RUNID-NONCE.lock    held with a shared lock by every process of the run
//   /offramp-RUNID-NONCE.ledger  /offramp-RUNID-NONCE.heartbeats  /offramp-RUNID-NONCE.s0 .s1 ...
// A run with groups of consumers has .ledger-GROUP and .heartbeats-GROUP for each group instead.
struct RunNames {
    std::string run_id;
    std::uint64_t nonce = 0;
    std::string group{};  // whose ledger and heartbeats; empty: a run without groups, or the run as a whole

    std::string lock() const;
    std::string ledger() const;
    std::string heartbeats() const;
    std::string span(std::uint32_t index) const;

    // Checks a run id: letters, digits, '.', '_' and '-', at most 48 bytes. Errors: ConfigError with the value.
    static void check_run_id(const std::string& run_id);
    static std::uint64_t random_nonce();
    // A group's name: lower-case letters, digits and '-', beginning with a letter, at most 16 bytes.
    static bool is_group_name(std::string_view text);
    static constexpr std::size_t kMostGroups = 8;
    RunNames of_group(const std::string& name) const { return {run_id, nonce, name}; }

    // The nonce's form in names and in the endpoint: 16 hexadecimal digits.
    std::string nonce_text() const;
    // Returns nothing for a text that is not 16 hexadecimal digits.
    static std::optional<std::uint64_t> nonce_in(std::string_view digits);
};

// Holds the shared lock that means "a process of this run is alive". The kernel releases it when the process dies. A
// forked child does not hold it.
class RunLock {
  public:
    // `create`: the producer passes true and creates the lock object (0600, or 0640 for a group) before any other
    // object of the run; consumers pass false. The object stays after the lock is released: sweep_run() removes it
    // last. Errors: SystemError; ErrorKind::NoSuchRun if the object does not exist or is being swept, NotPermitted if
    // it belongs to another user and the group has no access.
    static RunLock hold(const RunNames& names, bool create, bool readable_by_group = false);

  private:
    explicit RunLock(UniqueFd fd) : fd_(std::move(fd)) {}
    ProcessOwnFd fd_;
};

// Removes the objects of runs that no process holds any more: only this user's, only with the exclusive lock on the
// run's lock object, and only while its name refers to the locked inode. Returns the removed names. Errors are logged
// and skipped: a sweep never prevents a start.
std::vector<std::string> sweep_dead_runs();

// The same for one run, called by a process that leaves it. Returns true if no object of the run is left. Release the
// calling process's RunLock first: it counts as a live process. Blocks: for `patience` at most, while another process
// sweeps this run. If that process dies half-way, this call finishes the sweep. It does not wait for live processes of
// the run, which sweep it when they leave.
bool sweep_run(const RunNames& names, std::chrono::milliseconds patience = std::chrono::seconds(5));

// How a producer starts its run. Begun: it replaces a predecessor's directory contents, memory and name. Recovered: it
// keeps them, and continues a dead producer's run.
enum class RunStart { Begun, Recovered };

// The steps of RunLock and of the sweep: the open file behind a run's lock name, and its flock. Closing the file, or
// the death of the last process that inherited it, releases the lock. Between opening and locking, the name may change
// to another file, so check still_named() before you act.
class RunLockFile {
  public:
    // Returns nothing if the file does not exist. Never follows a link. Errors: SystemError, also if it is not a
    // regular file.
    static std::optional<RunLockFile> open(const RunNames& names);
    // The same to sweep the run. Only the owner can: a turn needs write permission.
    static std::optional<RunLockFile> open_to_sweep(const RunNames& names);
    // Returns nothing if the name exists.
    static std::optional<RunLockFile> create(const RunNames& names, mode_t mode);

    // Blocks while a sweep holds the file.
    void lock_shared();
    bool try_lock_shared();
    bool try_lock_exclusive();
    // Takes the second lock, which serializes sweeps; processes of the run do not take it. If you have the turn and
    // cannot get the exclusive lock, a live process holds it, and not another sweep, which may die before it is done.
    // Released like the other lock. Returns false if another sweep still has it after `patience`. Requires
    // open_to_sweep().
    bool take_turn(std::chrono::milliseconds patience);
    // True if the name still refers to this open file.
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
