#include "producer/models/copy_model.hpp"

#include <algorithm>
#include <cstring>

#include "common/base/error.hpp"

namespace offramp {
namespace {

constexpr std::size_t kShift = 512;  // bytes between the starts of two batches
constexpr std::uint64_t kStarts = 64;
constexpr std::size_t kPattern =
    (std::size_t{16} << 20) + 192;  // not a power of two: rows do not repeat one another

std::uint64_t mix(std::uint64_t value) {  // splitmix64
    value += 0x9e3779b97f4a7c15ULL;
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
    return value ^ (value >> 31);
}

class CopyModel final : public Model {
  public:
    CopyModel(const ModelOptions& options, Device& device)
        : bytes_(options.copy_bytes),
          buffer_(device.allocate(bytes_ + kStarts * kShift, "the output of model copy")) {
        const std::int64_t shape[] = {options.batch, static_cast<std::int64_t>(bytes_ / options.batch)};
        output_ = TensorSpec::contiguous("payload", kUInt8, shape);
        const auto pattern = device.allocate_pinned_host(kPattern, "the pattern of model copy");
        for (std::size_t i = 0; i < kPattern / sizeof(std::uint64_t); ++i) {
            const std::uint64_t word = mix(options.seed * kPattern + i);
            std::memcpy(pattern->data() + i * sizeof word, &word, sizeof word);
        }
        const auto stream = device.make_stream("copy-model");
        for (std::size_t at = 0; at < buffer_->bytes(); at += kPattern)
            stream->copy_to_device(buffer_->data() + at, pattern->data(),
                                   std::min(kPattern, buffer_->bytes() - at));
        stream->synchronize();
    }

    std::string description() const override {
        return "copy, no model, " + std::to_string(bytes_) + " bytes a batch";
    }
    std::uint64_t parameters() const override { return 0; }
    bool random_weights() const override { return false; }
    ModelInput input() const override { return {}; }
    std::vector<TensorSpec> outputs() const override { return {output_}; }

    std::vector<DeviceTensor> run(const void*) override {
        const std::byte* start = buffer_->data() + (runs_++ % kStarts) * kShift;
        return {{.spec = output_, .data = start, .owner = buffer_}};
    }

  private:
    std::size_t bytes_;
    std::shared_ptr<DeviceBuffer> buffer_;
    TensorSpec output_;
    std::uint64_t runs_ = 0;
};

}  // namespace

std::unique_ptr<Model> make_copy_model(const ModelOptions& options, Device& device) {
    if (options.copy_bytes == 0 || options.copy_bytes % options.batch != 0)
        throw ConfigError("--copy-bytes " + std::to_string(options.copy_bytes) +
                              " is no multiple of --batch " + std::to_string(options.batch),
                          "Give a size that every sample has an equal share of");
    return std::make_unique<CopyModel>(options, device);
}

}  // namespace offramp
