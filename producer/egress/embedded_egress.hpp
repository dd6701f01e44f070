#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/item_ranges.hpp"
#include "common/wire/tensor_spec.hpp"

namespace offramp {

// What a run of a program of one's own is made of. 0 and empty: chosen.
struct EmbeddedEgressOptions {
    std::string run_dir;              // where consumers meet it: absent, empty, or an earlier run's
    std::string run_id;               // in the names of its shared memory
    std::string name;                 // of what fills the slabs, in their headers; at most 63 bytes
    std::vector<TensorSpec> tensors;  // of one batch; dimension 0: the most samples that one holds
    std::string device = "auto";      // where the tensors are: auto, cpu, cuda, cuda:N
    std::uint32_t slabs = 0;
    std::uint32_t samples_per_slab = 0;
    std::size_t max_key_bytes = 255;
    std::uint32_t max_consumers = 64;
    bool drop_when_full = false;  // what finds no free slab is dropped, and counted
    // of a small batch that waits for others to share its slab
    std::chrono::nanoseconds max_delay = std::chrono::milliseconds(2);
    // without progress, before another consumer gets the slab too
    std::chrono::nanoseconds visibility_timeout = std::chrono::seconds(30);
    std::uint32_t max_failures = 3;  // deaths that a slab may cause before it is a dead letter
    bool kill_stalled = false;       // a consumer whose visibility timeout ran out is killed
    // Of a slab that consumers are done with: its items. On the broker's thread; may be empty.
    std::function<void(std::span<const ItemRange>)> on_completed{};
    // Of items that will not be done: dropped on the copy's thread, or dead-lettered on the broker's; may be empty.
    std::function<void(std::span<const ItemRange>)> on_failed_items{};
};

struct EmbeddedEgressStats {
    std::uint64_t batches_submitted = 0, samples_submitted = 0;
    std::uint64_t samples_published = 0, samples_completed = 0, samples_dropped = 0, samples_dead_lettered = 0;
    std::uint64_t bytes_copied = 0;
    double copy_seconds = 0;       // of the device
    double slab_wait_seconds = 0;  // the copies waited for a free slab
    std::uint32_t consumers = 0;   // living
    std::uint32_t stalled = 0;     // of them: their visibility timeout ran out
};

// The door to a whole run but for the model (EgressRun), for a program that has a loop of its own: it takes that
// program's tensors, stream and keep-alive as they are. Consumers meet it by its directory.
//
// Owns: the run, its place, its device, and threads "egress-copy", "egress-done", "broker". Thread: any; submit() and
// drain() take turns. Blocks: the constructor until the first slabs are there; submit() while all slabs are full;
// drain(). Errors: Error; what a thread of its own met is thrown by the next call. Never ends the process.
class EmbeddedEgress {
  public:
    struct Batch {
        // on the device, in the order of the options'; dense, `rows` of dimension 0
        std::span<const void* const> tensors;
        std::uint32_t rows = 0;
        std::vector<std::string> keys;     // one a row, or none: the items' numbers stand for them
        std::vector<std::uint64_t> items;  // one a row, rising, or none: counted on from the batch before
        void* stream = nullptr;  // cudaStream_t or CUstream that the tensors are written on; null: the legacy stream
        // keeps the tensors; let go, on a thread of ours, when their copies are done
        std::shared_ptr<const void> owner;
        std::optional<std::chrono::nanoseconds> timeout{};  // of the wait for slabs; none: until there are some
    };

    explicit EmbeddedEgress(EmbeddedEgressOptions options);
    // What was not drained is abandoned: consumers give back what they have not begun.
    ~EmbeddedEgress();
    EmbeddedEgress(const EmbeddedEgress&) = delete;
    EmbeddedEgress& operator=(const EmbeddedEgress&) = delete;

    // The caller's thread goes on at once, unless all slabs are full. Returns which batch of the run this is, counted
    // from 0; nothing when its timeout was over before, which changes nothing. Errors: ConfigError for a batch that
    // does not fit the options, which changes nothing.
    std::optional<std::uint64_t> submit(Batch batch);
    // Takes no more, and returns when consumers are done with everything. False: the time was over before; it may be
    // called again.
    bool drain(std::optional<std::chrono::nanoseconds> timeout = std::nullopt);
    EmbeddedEgressStats stats() const;

  private:
    struct Parts;
    std::unique_ptr<Parts> parts_;
};

}  // namespace offramp
