#include "producer/runner/models/copy_model.hpp"

#include <algorithm>
#include <cstring>

#include "common/app/settings/parsed_values.hpp"
#include "common/base/error.hpp"

namespace offramp {
namespace {

constexpr std::size_t kShift = 512;  // bytes between the starts of two batches
constexpr std::uint64_t kStarts = 64;
constexpr std::size_t kPattern = (std::size_t{16} << 20) + 192;  // not a power of two: rows differ from one another

std::uint64_t mix(std::uint64_t value) {  // splitmix64
    value += 0x9e3779b97f4a7c15ULL;
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
    return value ^ (value >> 31);
}

std::vector<TensorSpec> outputs_of(const ModelOptions& options) {
    std::vector<std::int64_t> shape{options.batch};
    if (options.copy_outputs.empty()) {
        shape.push_back(static_cast<std::int64_t>(options.copy_bytes / options.batch));
        return {TensorSpec::contiguous("payload", kUInt8, shape)};
    }
    const auto shapes = OutputShapes::parse(options.copy_outputs);
    if (!shapes)
        throw ConfigError("--copy-outputs '" + options.copy_outputs + "' is not a list of shapes",
                          "Give fp16 shapes of one sample, as 96x256x256,192x128x128");
    std::vector<TensorSpec> outputs;
    for (const auto& sample : shapes->outputs) {
        shape.resize(1);
        shape.insert(shape.end(), sample.begin(), sample.end());
        outputs.push_back(TensorSpec::contiguous("map" + std::to_string(outputs.size()), kFloat16, shape));
    }
    return outputs;
}

std::size_t bytes_of(const TensorSpec& output) { return output.row_bytes() * static_cast<std::size_t>(output.rows()); }

class CopyModel final : public Model {
  public:
    CopyModel(const ModelOptions& options, Device& device) : outputs_(outputs_of(options)) {
        for (const TensorSpec& output : outputs_) bytes_ += bytes_of(output);
        buffer_ = device.allocate(bytes_ + kStarts * kShift, "the output of model copy");
        const auto pattern = device.allocate_pinned_host(kPattern, "the pattern of model copy");
        for (std::size_t i = 0; i < kPattern / sizeof(std::uint64_t); ++i) {
            const std::uint64_t word = mix(options.seed * kPattern + i);
            std::memcpy(pattern->data() + i * sizeof word, &word, sizeof word);
        }
        const auto stream = device.make_stream("copy-model");
        for (std::size_t at = 0; at < buffer_->bytes(); at += kPattern)
            stream->copy_to_device(buffer_->data() + at, pattern->data(), std::min(kPattern, buffer_->bytes() - at));
        stream->synchronize();
    }

    std::string description() const override {
        return "copy, no model, " + std::to_string(bytes_) + " bytes a batch in " + std::to_string(outputs_.size()) +
               " outputs";
    }
    std::uint64_t parameters() const override { return 0; }
    bool random_weights() const override { return false; }
    ModelInput input() const override { return {}; }
    std::vector<TensorSpec> outputs() const override { return outputs_; }

    void begin_batch(std::uint64_t number) override { batch_ = number; }

    std::vector<DeviceTensor> run(const void*) override {
        const std::byte* at = buffer_->data() + (batch_++ % kStarts) * kShift;
        std::vector<DeviceTensor> tensors;
        tensors.reserve(outputs_.size());
        for (const TensorSpec& output : outputs_) {
            tensors.push_back({.spec = output, .data = at, .owner = buffer_});
            at += bytes_of(output);
        }
        return tensors;
    }

  private:
    std::vector<TensorSpec> outputs_;
    std::size_t bytes_ = 0;
    std::shared_ptr<DeviceBuffer> buffer_;
    std::uint64_t batch_ = 0;
};

}  // namespace

std::unique_ptr<Model> make_copy_model(const ModelOptions& options, Device& device) {
    if (options.copy_outputs.empty() && (options.copy_bytes == 0 || options.copy_bytes % options.batch != 0))
        throw ConfigError("--copy-bytes " + std::to_string(options.copy_bytes) + " is not a multiple of --batch " +
                              std::to_string(options.batch),
                          "Give a multiple of --batch");
    return std::make_unique<CopyModel>(options, device);
}

}  // namespace offramp
