#include "producer/runner/sources/source_part.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/base/error.hpp"
#include "common/settings/shard.hpp"

namespace offramp {
namespace {

// The items [begin, end) of another source.
class SourcePart final : public BatchSource {
  public:
    SourcePart(std::unique_ptr<BatchSource> whole, std::uint64_t begin, std::uint64_t end, std::string said)
        : whole_(std::move(whole)), begin_(begin), items_(end - begin), said_(std::move(said)) {
        // The item's number in this run stands for an empty key: behind the first shard that is another one.
        if (whole_->max_key_bytes() == 0 && begin > 0) keep_numbers(end);
        for (std::uint64_t item = 0; item < (number_bytes_ == 0 && whole_->max_key_bytes() > 0 ? items_ : 0); ++item)
            max_key_bytes_ = std::max(max_key_bytes_, key(item).size());
    }

    std::string description() const override { return whole_->description() + said_; }
    std::uint64_t items() const override { return items_; }
    RowKind row_kind() const override { return whole_->row_kind(); }
    std::string_view key(std::uint64_t item) const override {
        if (number_bytes_ == 0) return whole_->key(begin_ + item);
        const std::string_view slot(numbers_.data() + item * number_bytes_, number_bytes_);
        return slot.substr(0, slot.find('\0'));
    }
    std::size_t max_key_bytes() const override { return max_key_bytes_; }
    std::uint64_t note_hash(std::uint64_t item) const override { return whole_->note_hash(begin_ + item); }
    bool has_notes() const override { return whole_->has_notes(); }
    bool grows_at_its_end() const override { return whole_->grows_at_its_end() && begin_ == 0; }
    std::uint64_t items_of_the_whole() const override { return whole_->items(); }
    std::string origin(std::uint64_t item) const override { return whole_->origin(begin_ + item); }
    std::string file(std::uint64_t item) const override { return whole_->file(begin_ + item); }
    void load(std::uint64_t item, std::span<std::byte> row) override { whole_->load(begin_ + item, row); }

  private:
    void keep_numbers(std::uint64_t end) {
        number_bytes_ = max_key_bytes_ = std::to_string(end - 1).size();
        numbers_.resize(items_ * number_bytes_, '\0');
        for (std::uint64_t item = 0; item < items_; ++item) {
            const std::string number = std::to_string(begin_ + item);
            std::copy(number.begin(), number.end(),
                      numbers_.begin() + static_cast<std::ptrdiff_t>(item * number_bytes_));
        }
    }

    std::unique_ptr<BatchSource> whole_;
    std::uint64_t begin_;
    std::uint64_t items_;
    std::string said_;
    std::size_t max_key_bytes_ = 0;
    std::size_t number_bytes_ = 0;  // 0: keys are the whole's
    std::vector<char> numbers_;     // so many bytes an item
};

}  // namespace

std::unique_ptr<BatchSource> part_of(std::unique_ptr<BatchSource> whole, const InputSettings& config) {
    const std::uint64_t all = whole->items();
    const std::uint64_t kept = config.limit > 0 ? std::min(config.limit, all) : all;
    std::string said;
    if (kept < all) said = ", of which the first " + std::to_string(kept);
    Shard::Range range{0, kept};
    if (!config.shard.empty()) {
        const auto shard = Shard::parse(config.shard);
        expect(shard.has_value(), "--shard was checked when it was parsed");
        range = shard->of(kept);
        if (range.begin == range.end)
            throw ConfigError("--shard " + config.shard + " of " + std::to_string(kept) + " items is empty",
                              "Make at most " + std::to_string(kept) + " shards", ErrorKind::NoInput);
        said += ", of these shard " + config.shard + ": " + std::to_string(range.end - range.begin) + " from number " +
                std::to_string(range.begin) + " on";
    }
    if (range.begin == 0 && range.end == all) return whole;
    return std::make_unique<SourcePart>(std::move(whole), range.begin, range.end, std::move(said));
}

}  // namespace offramp
