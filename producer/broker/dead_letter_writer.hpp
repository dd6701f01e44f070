#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "common/wire/ledger_layout.hpp"
#include "common/wire/slab_view.hpp"

namespace offramp {

// A delivery that did not complete its filling, for the incident report of a dead letter.
struct DeliveryRecord {
    std::uint32_t attempt = 0;
    std::uint64_t pid = 0;
    std::uint64_t session = 0;
    std::uint64_t delivered_at_ns = 0;  // CLOCK_MONOTONIC
    std::uint64_t ended_at_ns = 0;
    std::string end;       // "died", "failed", "rejected", "returned", "visibility timeout", "disconnected"
    bool counted = false;  // the consumer died on it, or reported a failure
    std::string why;       // the consumer's own message, if it gave one
};

// A dead letter for DeadLetterWriter. Its memory stays unchanged until the outcome has been taken.
struct DeadLetterJob {
    SlabTicket ticket;  // of its filling, under the epoch of the producer that counted it
    std::uint64_t first_batch = 0;
    std::string reason;  // for people
    std::uint64_t deaths = 0;
    std::uint64_t failures = 0;
    std::vector<DeliveryRecord> deliveries;  // the failed ones
};

// The result of a job.
struct DeadLetterOutcome {
    std::uint32_t slab = 0;
    std::uint64_t generation = 0;
    std::string payload;  // the file's path; empty: the payload could not be kept
    std::string error;    // why not
};

// Writes dead letters to the disk, on its own thread: FOLDER/batch-B-row-R.safetensors (payload_file.hpp) and, beside
// it, the incident report as .json, for people and for the launch script, which adds what only it knows (signals, last
// log lines). Both files appear whole or not at all and are on the disk before the outcome is reported. The same rows,
// dead-lettered again, replace them.
//
// A payload that cannot be written (a full disk) is an outcome like any other: the error names path and reason, the
// incident report is written if at least that fits, and the slab may be freed. The outcome goes into the run's summary,
// so no loss is silent.
//
// Owns: its thread. Borrows: the slabs' memory, through bytes_of. Thread: any. Blocks: wait_until_idle(); the
// destructor for the file at hand (queued files are dropped). Errors: none thrown except by the constructor.
class DeadLetterWriter {
  public:
    // A slab's memory and its mapping.
    struct SlabBytes {
        std::span<const std::byte> bytes;
        std::shared_ptr<const void> owner;
    };
    struct Settings {
        std::string folder;  // created (0700) with the first file
        std::string run_id;
        std::uint64_t run_nonce = 0;
        std::function<SlabBytes(std::uint32_t slab)> bytes_of;  // called on the writer's thread
        std::function<void()> on_outcome;                       // called on the writer's thread
    };
    explicit DeadLetterWriter(Settings settings);
    ~DeadLetterWriter();
    DeadLetterWriter(const DeadLetterWriter&) = delete;
    DeadLetterWriter& operator=(const DeadLetterWriter&) = delete;

    void submit(DeadLetterJob job);
    // Outcomes since the last call, in order.
    std::vector<DeadLetterOutcome> take_outcomes();
    // Returns when every job has its outcome.
    void wait_until_idle();

  private:
    void run();
    DeadLetterOutcome write(const DeadLetterJob& job) const;
    std::string report_of(const DeadLetterJob& job, const SlabContents* slab, const DeadLetterOutcome& outcome) const;

    Settings settings_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<DeadLetterJob> jobs_;
    std::vector<DeadLetterOutcome> outcomes_;
    bool busy_ = false;
    bool stopping_ = false;
    std::thread thread_;
};

}  // namespace offramp
