#include "producer/runner/run/encoded_outputs.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/base/error.hpp"
#include "common/base/log.hpp"
#include "common/base/trace.hpp"
#include "common/base/utf8.hpp"
#include "common/wire/tensor_spec.hpp"

namespace offramp {
namespace {

constexpr std::size_t kLeastChunk = std::size_t{8} << 20;

void require_pixels(const OutputBatch& batch, PixelRange range) {
    for (const RowOutliers& outliers : batch.outliers)
        for (std::size_t row = 0; row < batch.rows.size(); ++row) {
            const RowInfo& info = batch.rows[row];
            if (info.empty || outliers.of(row) == 0) continue;
            throw ConfigError(outliers.output + " of the item '" +
                                  (info.key.empty() ? std::to_string(info.item) : printable(info.key)) + "' holds " +
                                  range.objection_to(outliers.of(row)),
                              "Give the --image-range that the network has: 0:1, -1:1 or 0:255");
        }
}

}  // namespace

EncodedOutputs::EncodedOutputs(std::unique_ptr<RunOutputs> copied, std::unique_ptr<PictureEncoder> encoder, Parts parts)
    : copied_(std::move(copied)),
      encoder_(std::move(encoder)),
      parts_(std::move(parts)),
      chunk_bytes_(std::max(kLeastChunk, parts_.transformer.most_varying_bytes())),
      chunks_([&device = parts_.device, bytes = chunk_bytes_] { return device.allocate(bytes, "encoded pictures"); }),
      thread_([this] { encode_batches(); }) {}

EncodedOutputs::~EncodedOutputs() {
    stop();
    if (thread_.joinable()) thread_.join();
}

bool EncodedOutputs::submit(OutputBatch batch) {
    counters_.submitted(batch);
    if (queue_.push(std::move(batch))) return true;
    release(batch);  // NOLINT(bugprone-use-after-move): it was not taken
    rethrow_failure();
    return false;
}

void EncodedOutputs::finish() {
    queue_.close();
    if (thread_.joinable()) thread_.join();
    copied_->finish();
    rethrow_failure();
}

void EncodedOutputs::stop() {
    stopped_ = true;
    queue_.close();
    copied_->stop();
}

OutputStats EncodedOutputs::stats() const {
    OutputStats stats = copied_->stats();
    const OutputStats own = counters_.stats();
    stats.batches_submitted = own.batches_submitted;
    stats.samples_submitted = own.samples_submitted;
    return stats;
}

void EncodedOutputs::rethrow_failure() {
    const std::lock_guard lock(mutex_);
    if (failure_) std::rethrow_exception(failure_);
}

void EncodedOutputs::encode_batches() {
    name_this_thread("encode");
    try {
        parts_.device.use_on_this_thread();
        while (auto batch = queue_.pop()) {
            if (stopped_) {
                release(*batch);
                break;
            }
            encode(*batch);
            if (!copied_->submit(std::move(*batch))) break;
        }
    } catch (...) {
        {
            const std::lock_guard lock(mutex_);
            failure_ = std::current_exception();
        }
        queue_.close();
        parts_.on_failure();
    }
    queue_.close();  // wakes submit(): nothing is popped any more
    while (const auto batch = queue_.try_pop()) release(*batch);
}

void EncodedOutputs::encode(OutputBatch& batch) {
    if (batch.tensors.empty()) return;  // every row is empty
    batch.computed->wait();
    require_pixels(batch, parts_.transformer.pixel_range());
    batch.outliers.clear();
    for (std::size_t output = 0; output < batch.tensors.size(); ++output)
        if (parts_.transformer.encodes(output)) encode_tensor(batch.tensors[output], output, batch);
    require_room(batch, parts_.layout);
}

void EncodedOutputs::encode_tensor(DeviceTensor& tensor, std::size_t output, const OutputBatch& batch) {
    const auto* const pixels = static_cast<const std::uint8_t*>(tensor.data);
    const TensorSpec& spec = tensor.spec;
    std::vector<PictureEncoder::Picture> pictures;
    for (std::size_t row = 0; row < batch.rows.size(); ++row)
        if (!batch.rows[row].empty)
            pictures.push_back({.pixels = pixels + row * spec.row_bytes(),
                                .channels = static_cast<std::uint32_t>(spec.shape[1]),
                                .width = static_cast<std::uint32_t>(spec.shape[3]),
                                .height = static_cast<std::uint32_t>(spec.shape[2]),
                                .channels_last = is_channels_last(spec)});
    const auto chunks = std::make_shared<std::vector<std::shared_ptr<DeviceBuffer>>>();
    std::size_t used = 0;
    const auto room = [&](std::size_t bytes) {
        expect(bytes <= chunk_bytes_, "a chunk has room for any file");
        if (chunks->empty() || used + bytes > chunk_bytes_) {
            chunks->push_back(chunks_.take());
            used = 0;
        }
        return chunks->back()->data() + std::exchange(used, round_up(used + bytes, kSampleAlignment));
    };
    const std::vector<PictureEncoder::File> files = encoder_->encode(pictures, room);
    DeviceTensor made{.spec = parts_.layout.tensors[output], .data = nullptr, .owner = chunks};
    made.padding_bytes = chunks->size() * chunk_bytes_;
    auto file = files.begin();
    for (const RowInfo& row : batch.rows) {
        const PictureEncoder::File encoded = row.empty ? PictureEncoder::File{} : *file++;
        made.samples.push_back({.data = encoded.data, .bytes = encoded.bytes});
        made.extents.push_back(static_cast<std::int64_t>(encoded.bytes));
        made.padding_bytes -= encoded.bytes;
    }
    tensor = std::move(made);
}

}  // namespace offramp
