#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "common/base/durability.hpp"
#include "common/base/held_folder.hpp"
#include "common/base/item_ranges.hpp"
#include "common/base/unique_fd.hpp"
#include "producer/runner/checkpoint/checkpoint_file.hpp"

namespace offramp {

// Keeps a run's checkpoint while it runs: items are noted once their completion was accepted, and written by a thread
// of its own, a few together. So the checkpoint may lag behind the outputs, and never leads. The file is written anew,
// by rename, when the first items are noted (or before, by begin()) and whenever it has grown to twice what it need be:
// its size is bounded by the gaps in what is done, not by the length of the run. Until then what lies at its path is as
// it was: a run that fails before has replaced nothing.
//
// Owns: its thread, the file and its folder, held open: it writes there wherever the name leads. Thread: note() and
// begin() from any; the rest from one. Blocks: note() never on the file; begin(), close() and end() on the file system.
// Errors: SystemError with CannotWrite, from those three; while it runs, on_failure is called once (on the writer's
// thread), and begin() and close() throw it again.
class CheckpointWriter {
  public:
    // `checkpoint`: with all that is done already. `many_may_write`: others at once, from hosts that no lock reaches.
    // The last one's is the whole file then, and what others append goes nowhere: it is made again.
    // `require_in_place`: called before anything is written; throws where results lie elsewhere by now. One call at a
    // time.
    CheckpointWriter(
        std::string path, Checkpoint checkpoint, Durability durability,
        std::function<void(std::exception_ptr)> on_failure, bool many_may_write = false,
        std::function<void()> require_in_place = [] {});
    ~CheckpointWriter();
    CheckpointWriter(const CheckpointWriter&) = delete;
    CheckpointWriter& operator=(const CheckpointWriter&) = delete;

    // Replaces what lies at the path, unless it is this writer's already. For what continues the checkpoint before it:
    // nothing is done yet that it has not.
    void begin();
    // What lies at the path is this writer's.
    bool begun() const { return begun_; }
    void note(std::span<const ItemRange> items);
    // Everything that was noted is in the file. Harmless when repeated.
    void close();
    // After close(): all that is done.
    const ItemRanges& done() const { return checkpoint_.done; }
    // After close(): the run has come to its end by itself, and says so.
    void end();

    static constexpr std::size_t kLeastToRewrite = std::size_t{1} << 20;

  private:
    void write_noted();
    void append(const std::vector<ItemRange>& items);
    void write_anew();

    const std::string path_;
    const HeldFolder folder_;
    const Durability durability_;
    const bool many_may_write_;
    const std::function<void(std::exception_ptr)> on_failure_;
    const std::function<void()> require_in_place_;
    // The writer's thread's own.
    Checkpoint checkpoint_;
    UniqueFd file_;
    std::size_t bytes_ = 0;       // of the file
    std::size_t anew_bytes_ = 0;  // of it when it was last written anew

    std::mutex mutex_;  // guards the rest
    std::condition_variable changed_;
    std::vector<ItemRange> noted_;
    bool beginning_ = false;          // somebody waits for the file
    std::atomic<bool> begun_{false};  // set under it
    std::condition_variable began_;
    bool closing_ = false;
    std::exception_ptr failure_;
    std::thread thread_;
};

}  // namespace offramp
