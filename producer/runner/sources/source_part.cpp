#include "producer/runner/sources/source_part.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "common/app/settings/shard.hpp"
#include "common/base/error.hpp"

namespace offramp {
namespace {

// The first items of another source.
class FirstItems final : public BatchSource {
  public:
    FirstItems(std::unique_ptr<BatchSource> whole, std::uint64_t items) : whole_(std::move(whole)), items_(items) {
        for (std::uint64_t item = 0; item < (whole_->max_key_bytes() > 0 ? items_ : 0); ++item)
            max_key_bytes_ = std::max(max_key_bytes_, key(item).size());
    }

    std::string description() const override {
        return whole_->description() + ", of which the first " + std::to_string(items_);
    }
    std::vector<LeftOut> left_out() const override { return whole_->left_out(); }
    std::uint64_t items() const override { return items_; }
    RowKind row_kind() const override { return whole_->row_kind(); }
    std::string_view key(std::uint64_t item) const override { return whole_->key(item); }
    std::string_view key_of_whole(std::uint64_t item) const override { return whole_->key_of_whole(item); }
    std::size_t max_key_bytes() const override { return max_key_bytes_; }
    std::uint64_t note_hash(std::uint64_t item) const override { return whole_->note_hash(item); }
    std::uint64_t stamp(std::uint64_t item) const override { return whole_->stamp(item); }
    bool has_notes() const override { return whole_->has_notes(); }
    bool grows_at_its_end() const override { return whole_->grows_at_its_end(); }
    std::uint64_t items_of_the_whole() const override { return whole_->items(); }
    std::string origin(std::uint64_t item) const override { return whole_->origin(item); }
    std::string file(std::uint64_t item) const override { return whole_->file(item); }
    bool has_files() const override { return whole_->has_files(); }
    void load(std::uint64_t item, std::span<std::byte> row) override { whole_->load(item, row); }

  private:
    std::unique_ptr<BatchSource> whole_;
    std::uint64_t items_;
    std::size_t max_key_bytes_ = 0;
};

}  // namespace

std::unique_ptr<BatchSource> part_of(std::unique_ptr<BatchSource> whole, const InputSettings& config) {
    if (config.limit == 0 || config.tile > 0 || config.chunk_tokens > 0 || config.limit >= whole->items()) return whole;
    return std::make_unique<FirstItems>(std::move(whole), config.limit);
}

ItemRange share_of(const BatchSource& source, const InputSettings& config) {
    const std::uint64_t all = source.items();
    if (config.shard.empty()) return {0, all};
    const auto shard = Shard::parse(config.shard);
    expect(shard.has_value(), "--shard was checked when it was parsed");
    const Shard::Range range = shard->of(all);
    if (range.begin == range.end)
        throw ConfigError("--shard " + config.shard + " of " + std::to_string(all) + " items is empty",
                          "Make at most " + std::to_string(all) + " shards", ErrorKind::NoInput);
    return {range.begin, range.end};
}

}  // namespace offramp
