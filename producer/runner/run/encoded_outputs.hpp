#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "common/base/bounded_queue.hpp"
#include "common/wire/slab_layout.hpp"
#include "producer/device/device.hpp"
#include "producer/device/lending_pool.hpp"
#include "producer/egress/output_counters.hpp"
#include "producer/runner/inference/inference.hpp"
#include "producer/runner/kernels/picture_encoder.hpp"
#include "producer/runner/transforms/output_transformer.hpp"

namespace offramp {

// Encodes the pictures of each batch on the device, beside the next batch's computation, and passes it on. The lengths
// of files decide how slabs are filled, so a thread waits for them.
//
// Owns: the outputs that copy, the encoder, one thread, the files' memory. Borrows: the parts. Thread, blocks, errors:
// as RunOutputs. ConfigError: a number of a picture has no pixel.
class EncodedOutputs final : public RunOutputs {
  public:
    struct Parts {
        Device& device;
        const OutputTransformer& transformer;
        const SlabLayout& layout;
        std::function<void()> on_failure;  // called on the thread
    };
    EncodedOutputs(std::unique_ptr<RunOutputs> copied, std::unique_ptr<PictureEncoder> encoder, Parts parts);
    ~EncodedOutputs() override;

    bool submit(OutputBatch batch) override;
    void finish() override;
    void stop() override;
    OutputStats stats() const override;
    BrokerReport report() const override { return copied_->report(); }
    void abort() override { copied_->abort(); }
    void join() override { copied_->join(); }

  private:
    void encode_batches();
    void encode(OutputBatch& batch);
    void encode_tensor(DeviceTensor& tensor, std::size_t output, const OutputBatch& batch);
    void rethrow_failure();

    const std::unique_ptr<RunOutputs> copied_;
    const std::unique_ptr<PictureEncoder> encoder_;
    const Parts parts_;
    OutputCounters counters_;
    const std::size_t chunk_bytes_;     // room for any file
    LendingPool<DeviceBuffer> chunks_;  // files, one after another
    BoundedQueue<OutputBatch> queue_{1};
    std::atomic<bool> stopped_{false};
    std::mutex mutex_;            // guards the next one
    std::exception_ptr failure_;  // of the thread
    std::thread thread_;
};

}  // namespace offramp
