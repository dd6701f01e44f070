#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "common/base/unique_fd.hpp"
#include "producer/pool/slab_exchange.hpp"

namespace offramp {

// A slab on the disk, named after its filling: FOLDER/slab-S-G.spill, or lost-S-G.spill once another group could not
// process it.
struct SpilledFile {
    std::string path;
    std::uint32_t slab = 0;
    std::uint64_t generation = 0;
    bool lost = false;
};

// With its contents, for the broker's totals.
struct SpilledSlab {
    SpilledFile file;
    PublishedSlab published;
};

// Writes waiting slabs to the disk and reads them back, on its own thread, one at a time. A file is a slab's memory,
// byte by byte, with its header, and appears whole or not at all. It outlives this process, so that another producer
// can continue with it. It need not outlive the machine's memory, which holds the other slabs, so it is not flushed.
//
// The file counts once its slab is Free again; until then the slab does. The file is removed after it was read back and
// published; until then it counts. After a death the ledger shows which of the two is the copy (Broker::adopt gets that
// answer).
//
// Owns: its thread. Borrows: the memory named in a job, until that job's outcome was taken. Thread: the broker's.
// Blocks: the destructor, for the file at hand. Errors: the constructor's are SystemError; a job's are in its outcome.
class SpillStore {
  public:
    struct Outcome {
        enum class Job { Wrote, Read } job = Job::Wrote;
        std::uint32_t slab = 0;
        SpilledFile file;
        std::string error;  // empty: success
    };

    // Creates the folder (0700). `on_outcome` is called on the store's thread.
    SpillStore(std::string folder, std::function<void()> on_outcome);
    ~SpillStore();
    SpillStore(const SpillStore&) = delete;
    SpillStore& operator=(const SpillStore&) = delete;

    const std::string& folder() const { return folder_; }
    // Between a job and the taking of its outcome.
    bool busy() const { return busy_; }
    void write(std::uint32_t slab, std::uint64_t generation, std::span<const std::byte> bytes);
    void read(const SpilledFile& file, std::uint32_t slab, std::span<std::byte> bytes);
    std::optional<Outcome> take_outcome();

    // The files of a previous producer, by name; unfinished files are removed. Errors: SystemError.
    std::vector<SpilledFile> left_there() const;
    static void remove(const SpilledFile& file) noexcept;
    // Renames it, also while it is read. Errors: SystemError.
    static void mark_lost(SpilledFile& file);
    // Removes the folder with its contents, after the run and the store have ended.
    static void remove_folder(const std::string& folder) noexcept;

  private:
    struct Job {
        Outcome outcome;
        std::span<const std::byte> from;
        std::span<std::byte> to;
        UniqueFd source;  // opened before the file may be renamed
        int problem = 0;  // errno, if it could not be opened
    };
    void start(Job job);
    void work();

    std::string folder_;
    std::function<void()> on_outcome_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::optional<Job> job_;
    std::optional<Outcome> outcome_;
    bool busy_ = false;  // used by the broker's thread only
    bool stopping_ = false;
    std::thread thread_;
};

}  // namespace offramp
