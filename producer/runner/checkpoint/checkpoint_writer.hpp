#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "common/base/files.hpp"
#include "common/base/held_folder.hpp"
#include "common/base/items.hpp"
#include "common/base/unique_fd.hpp"
#include "producer/runner/checkpoint/checkpoint_file.hpp"

namespace offramp {

// Keeps a run's checkpoint while it runs. Items are noted once their completion was accepted; the writer's own thread
// writes them, a few together. So the checkpoint may lag behind the outputs, and never leads. The file is replaced, by
// rename, when the first items are noted (or earlier, by begin()) and whenever it has grown to twice its minimal size:
// the gaps in completed work bound its size, not the length of the run. Until then the file at its path stays: a run
// that fails earlier has replaced nothing.
//
// Owns: its thread, the file and its folder, held open: it writes there wherever the name leads. Thread: note() and
// begin() from any; the rest from one. Blocks: note() never on the file; begin(), close() and end() on the file system.
// Errors: SystemError with CannotWrite, from those three; while it runs, on_failure is called once (on the writer's
// thread), and begin() and close() throw it again.
class CheckpointWriter {
  public:
    // `checkpoint`: with all completed work so far. `many_may_write`: writers on hosts without a common lock may run
    // concurrently. The last one's file then wins and lacks the others' lines: their items are processed again.
    // `require_in_place`: called before each write; throws if results go elsewhere by now. One call at a time.
    // `items_file`: new_items_file(), flushed, if the checkpoint vouches for a new one. It is put in place first.
    CheckpointWriter(
        std::string path, Checkpoint checkpoint, Durability durability,
        std::function<void(std::exception_ptr)> on_failure, bool many_may_write = false,
        std::function<void()> require_in_place = [] {}, std::unique_ptr<WholeFile> items_file = nullptr);
    ~CheckpointWriter();
    CheckpointWriter(const CheckpointWriter&) = delete;
    CheckpointWriter& operator=(const CheckpointWriter&) = delete;

    // Replaces the file at the path, unless it is this writer's already. For a run that continues the previous
    // checkpoint: it adds no completed items yet.
    void begin();
    // True if the file at the path is this writer's.
    bool begun() const { return begun_; }
    void note(std::span<const ItemRange> items);
    // Writes everything noted so far. May be called again.
    void close();
    // After close(): all completed items.
    const ItemRanges& done() const { return checkpoint_.done; }
    // After close(): records that the run ended by itself.
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
    // Used by the writer's thread only.
    Checkpoint checkpoint_;
    std::unique_ptr<WholeFile> items_file_;  // null: none, or in place with its name on the disk
    bool items_in_place_ = false;
    UniqueFd file_;
    std::size_t bytes_ = 0;       // size of the file
    std::size_t anew_bytes_ = 0;  // its size at the last rewrite

    std::mutex mutex_;  // guards the rest
    std::condition_variable changed_;
    std::vector<ItemRange> noted_;
    bool beginning_ = false;          // a begin() waits for the file
    std::atomic<bool> begun_{false};  // set under the mutex
    std::condition_variable began_;
    bool closing_ = false;
    std::exception_ptr failure_;
    std::thread thread_;
};

}  // namespace offramp
