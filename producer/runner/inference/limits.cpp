#include "producer/runner/inference/limits.hpp"

#include <algorithm>
#include <vector>

#include "common/base/clock.hpp"

namespace offramp {
namespace {

// Outputs of measurements are discarded, so their scores are not reviewed.
std::vector<DeviceTensor> outputs_of(Model& model, OutputTransformer& transformer, Stream& compute, const void* input) {
    std::vector<RowOutliers> unread;
    return transformer.apply(compute, model.run(input), unread);
}

}  // namespace

double measure_compute_alone(Model& model, OutputTransformer& transformer, Device& device, Stream& compute,
                             const void* input, std::uint64_t warmup, std::uint64_t batches) {
    for (std::uint64_t i = 0; i < warmup; ++i) outputs_of(model, transformer, compute, input);
    compute.synchronize();
    const auto began = device.make_event(Device::Timing::On);
    const auto ended = device.make_event(Device::Timing::On);
    compute.record(*began);
    // Bounds how far the host runs ahead: each batch in flight holds an output on the device.
    std::vector<std::unique_ptr<Event>> done;
    for (int i = 0; i < 2; ++i) done.push_back(device.make_event());
    for (std::uint64_t i = 0; i < batches; ++i) {
        if (done[i % 2]->armed()) done[i % 2]->wait();
        outputs_of(model, transformer, compute, input);
        compute.record(*done[i % 2]);
    }
    compute.record(*ended);
    ended->wait();
    return static_cast<double>(batches) / ended->seconds_since(*began);
}

double measure_copy_ceiling(Model& model, OutputTransformer& transformer, Device& device, Stream& compute,
                            const void* input, EgressRun& egress, std::uint64_t batches) {
    const SlabLayout& layout = egress.layout();
    const std::vector<DeviceTensor> outputs = outputs_of(model, transformer, compute, input);
    compute.synchronize();
    std::vector<WriteLoan> loans;
    for (std::uint32_t i = 0; i < std::clamp(egress.spans().slab_count / 2, 1U, 4U); ++i) {
        auto loan = egress.borrow_slab();
        if (!loan) return 0;
        loans.push_back(std::move(*loan));
    }
    const auto stream = device.make_stream("copy-ceiling");
    const auto began = device.make_event(Device::Timing::On);
    const auto ended = device.make_event(Device::Timing::On);
    std::uint64_t bytes = 0;
    const auto copy_once = [&](const WriteLoan& loan) {
        // As many rows of one batch as a slab takes, repeated for each batch that shares it.
        for (std::uint32_t batch = 0; batch < layout.batches; ++batch) {
            for (std::size_t i = 0; i < outputs.size(); ++i) {
                const std::int64_t rows = std::min<std::int64_t>(layout.rows / layout.batches, outputs[i].spec.rows());
                const std::size_t size = static_cast<std::size_t>(rows) * layout.tensors[i].row_bytes();
                stream->copy_to_host(loan.bytes().data() + layout.header_bytes + layout.offsets[i] + batch * size,
                                     static_cast<const std::byte*>(outputs[i].data), size);
                bytes += size;
            }
        }
    };
    copy_once(loans.front());
    bytes = 0;
    stream->record(*began);
    for (std::uint64_t i = 0; i < batches; ++i) copy_once(loans[i % loans.size()]);
    stream->record(*ended);
    ended->wait();
    return static_cast<double>(bytes) / ended->seconds_since(*began);
}

}  // namespace offramp
