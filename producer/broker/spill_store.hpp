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

#include "producer/pool/published_slab.hpp"

namespace offramp {

// One slab on the disk, named after the filling that it was: FOLDER/slab-S-G.spill.
struct SpilledFile {
    std::string path;
    std::uint32_t slab = 0;
    std::uint64_t generation = 0;
};

// And what it holds, for the broker's totals.
struct SpilledSlab {
    SpilledFile file;
    PublishedSlab published;
};

// Takes waiting slabs to the disk, and brings them back, on a thread of its own, one at a time: a file is a slab's
// memory, byte by byte, header and all, and appears whole or not at all. It outlives this process, so that another
// producer goes on with it; it does not outlive the machine's memory (what was in the other slabs would be gone, too),
// so it is not flushed.
//
// The file counts once its slab is Free again; until then the slab does. Read back and published, it is removed; until
// then it counts. So whoever comes after a death tells by the ledger which of the two is the copy (Broker::adopt has
// been told so).
//
// Owns: its thread. Borrows: the memory named in a job, until that job's outcome was taken. Thread: the broker's.
// Blocks: the destructor, for the file at hand. Errors: the constructor's are SystemError; a job's are in its outcome.
class SpillStore {
  public:
    struct Outcome {
        enum class Job { Wrote, Read } job = Job::Wrote;
        std::uint32_t slab = 0;
        SpilledFile file;
        std::string error;  // empty: it was done
    };

    // Makes the folder (0700). `on_outcome` is called on the store's thread.
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

    // What a previous producer left there, by name; unfinished files are removed. Errors: SystemError.
    std::vector<SpilledFile> left_there() const;
    static void remove(const SpilledFile& file) noexcept;
    // With everything in it, when the run is over and the store gone.
    static void remove_folder(const std::string& folder) noexcept;

  private:
    struct Job {
        Outcome outcome;
        std::span<const std::byte> from;
        std::span<std::byte> to;
    };
    void start(Job job);
    void work();

    std::string folder_;
    std::function<void()> on_outcome_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::optional<Job> job_;
    std::optional<Outcome> outcome_;
    bool busy_ = false;  // the broker's own note
    bool stopping_ = false;
    std::thread thread_;
};

}  // namespace offramp
