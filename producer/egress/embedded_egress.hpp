#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/items.hpp"
#include "common/wire/tensor_spec.hpp"
#include "producer/egress/egress_run.hpp"
#include "producer/egress/run_status.hpp"
#include "producer/egress/slab_plan.hpp"

namespace offramp {

// Settings of a run inside a program. Empty: chosen automatically.
struct EmbeddedEgressOptions {
    std::string run_dir;              // consumers find the run by it: absent, empty, or an earlier run's
    std::string run_id;               // in the names of its shared memory
    std::string name;                 // shown to consumers, in the slabs' headers; at most 63 bytes
    std::vector<TensorSpec> tensors;  // of one batch; dimension 0: its usual samples
    std::string device = "auto";      // where the tensors are: auto, cpu, cuda, cuda:N
    SlabPlan::Wanted plan{};          // the egress sets its `batch`
    // The egress sets its layout, spans and pinning, the stream's batch, queue depth and model, and the broker's users.
    EgressRunOptions run{};
    // Items of a completed slab. On the broker's thread; may be empty.
    std::function<void(std::span<const ItemRange>)> on_completed{};
    // Items that will not be processed: dropped (copy's or broker's thread) or dead-lettered (broker's). May be empty.
    std::function<void(std::span<const ItemRange>)> on_failed_items{};
};

// A run (EgressRun) inside a program with its own loop. It uses that program's tensors, stream and keep-alives as they
// are. Consumers find the run by its directory.
//
// Owns: the run, its place, its device, and threads "egress-copy", "egress-done", "broker", "status". Thread: any;
// submit() and drain() exclude each other. Blocks: the constructor until the first slabs are there; submit() while all
// slabs are full; drain(). Errors: Error; a failure on one of its threads is thrown by the next call. Never ends the
// process.
class EmbeddedEgress {
  public:
    struct Batch {
        // on the device, in the order of the options' tensors; dense, `rows` of dimension 0
        std::span<const void* const> tensors;
        // by tensor; null for one that does not vary: of each row, the extents in the varying dimensions
        std::span<const std::int64_t* const> extents{};
        // by tensor: of each row, its address; null: the rows of this tensor follow one another
        std::span<const void* const* const> addresses{};
        std::uint32_t rows = 0;
        std::vector<std::string> keys;        // one per row, or none: item numbers serve as keys
        std::vector<std::string> metadata{};  // one per row, or none: a JSON object, or empty
        std::vector<std::uint64_t> items;     // one per row, ascending, or none: counted on from the batch before
        void* stream = nullptr;  // cudaStream_t or CUstream on which the tensors are written; null: the legacy stream
        // keeps the tensors alive; released on one of the run's threads when their copies are done
        std::shared_ptr<const void> owner;
        std::optional<std::chrono::nanoseconds> timeout{};  // for the wait for slabs; none: no limit
    };

    explicit EmbeddedEgress(EmbeddedEgressOptions options);
    // Abandons a run that was not drained: consumers return the slabs that they have not begun.
    ~EmbeddedEgress();
    EmbeddedEgress(const EmbeddedEgress&) = delete;
    EmbeddedEgress& operator=(const EmbeddedEgress&) = delete;

    // Returns immediately unless all slabs are full. The result is the batch's number in this run, from 0, or nothing
    // after the timeout, which changes nothing. Errors: ConfigError for a batch that does not fit the options, which
    // changes nothing.
    std::optional<std::uint64_t> submit(Batch batch);
    // Takes no more batches and returns once consumers have processed everything. False: the time ran out; call it
    // again.
    bool drain(std::optional<std::chrono::nanoseconds> timeout = std::nullopt);
    EgressStats stats() const;

  private:
    struct Parts;
    std::unique_ptr<Parts> parts_;
};

}  // namespace offramp
