#include <limits>
#include <utility>
#include <vector>

#include "common/base/error.hpp"
#include "producer/runner/sources/batch_source.hpp"
#include "producer/runner/sources/normal_noise.hpp"

namespace offramp {
namespace {

// Numbered items of seeded N(0, 1) numbers, of zeros for arrays that are not floats, or none at all when the batch is
// resident on the device.
class SyntheticSource final : public BatchSource {
  public:
    SyntheticSource(std::uint64_t items, RowKind row_kind, std::vector<InputPart> parts, std::uint64_t seed)
        : items_(items), row_kind_(row_kind), parts_(std::move(parts)), noise_(seed) {}

    std::string description() const override {
        return "synthetic: " + std::to_string(items_) +
               (row_kind_ == RowKind::Nothing ? " items, nothing to upload" : " items, made on the host");
    }
    std::uint64_t items() const override { return items_; }
    RowKind row_kind() const override { return row_kind_; }
    std::string_view key(std::uint64_t) const override { return {}; }
    std::size_t max_key_bytes() const override { return 0; }
    bool has_notes() const override { return false; }
    bool has_files() const override { return false; }
    std::string origin(std::uint64_t item) const override { return "synthetic item " + std::to_string(item); }
    void load(std::uint64_t item, std::span<std::byte> row) override {
        if (row_kind_ == RowKind::Arrays) return fill_synthetic_row(noise_, item, parts_, row);
        noise_.fill(item, {reinterpret_cast<float*>(row.data()), row.size() / sizeof(float)});
    }

  private:
    std::uint64_t items_;
    RowKind row_kind_;
    std::vector<InputPart> parts_;
    NormalNoise noise_;
};

std::uint64_t count_items(const InputSettings& config) {
    if (config.batches == 0)
        throw ConfigError("--batches is 0", "A synthetic source never ends by itself: give --batches a number above 0");
    expect(config.batch > 0, "the batch is resolved before a source is made");
    if (config.batches > std::numeric_limits<std::uint64_t>::max() / config.batch)
        throw ConfigError("--batches " + std::to_string(config.batches) + " of --batch " +
                              std::to_string(config.batch) + " are more items than can be counted",
                          "Give --batches a smaller number");
    return config.batches * config.batch;
}

}  // namespace

std::unique_ptr<BatchSource> make_synthetic(const SourceOptions& options) {
    const InputSettings& config = *options.input;
    if (config.synthetic_on != "host" && config.synthetic_on != "device")
        throw ConfigError("--synthetic-on '" + config.synthetic_on + "' is unknown", "Known: host, device");
    const bool uploads = config.synthetic_on == "host" && options.model_input.dims > 0;
    const RowKind rows = !uploads ? RowKind::Nothing : options.parts.empty() ? RowKind::Float32 : RowKind::Arrays;
    return std::make_unique<SyntheticSource>(count_items(config), rows, options.parts, options.model->seed);
}

}  // namespace offramp
