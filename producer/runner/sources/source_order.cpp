#include "producer/runner/sources/source_order.hpp"

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

#include "producer/runner/sources/source_fingerprint.hpp"

namespace offramp {
namespace {

class RenumberedSource final : public BatchSource {
  public:
    RenumberedSource(std::unique_ptr<BatchSource> source, std::vector<std::uint64_t> order)
        : source_(std::move(source)), order_(std::move(order)) {}

    std::string description() const override { return source_->description(); }
    std::vector<LeftOut> left_out() const override { return source_->left_out(); }
    std::uint64_t items() const override { return source_->items(); }
    RowKind row_kind() const override { return source_->row_kind(); }
    std::string_view key(std::uint64_t item) const override { return source_->key(order_[item]); }
    std::string_view key_of_whole(std::uint64_t item) const override { return source_->key_of_whole(order_[item]); }
    std::size_t max_key_bytes() const override { return source_->max_key_bytes(); }
    std::uint64_t note_hash(std::uint64_t item) const override { return source_->note_hash(order_[item]); }
    std::uint64_t stamp(std::uint64_t item) const override { return source_->stamp(order_[item]); }
    bool has_notes() const override { return source_->has_notes(); }
    std::string origin(std::uint64_t item) const override { return source_->origin(order_[item]); }
    std::string file(std::uint64_t item) const override { return source_->file(order_[item]); }
    bool has_files() const override { return source_->has_files(); }
    void load(std::uint64_t item, std::span<std::byte> row) override { source_->load(order_[item], row); }

  private:
    std::unique_ptr<BatchSource> source_;
    std::vector<std::uint64_t> order_;  // the source's number for each item
};

}  // namespace

std::unique_ptr<BatchSource> in_previous_order(std::unique_ptr<BatchSource> source,
                                               std::span<const std::uint64_t> previous) {
    const std::vector<std::uint64_t> now = hashes_of_items(*source);
    if (previous.empty() || now.size() < previous.size() || std::equal(previous.begin(), previous.end(), now.begin()))
        return source;
    std::unordered_map<std::uint64_t, std::uint64_t> numbers;
    numbers.reserve(now.size());
    for (std::uint64_t item = 0; item < now.size(); ++item) numbers.emplace(now[item], item);
    std::vector<std::uint64_t> order;
    order.reserve(now.size());
    for (const std::uint64_t hash : previous) {
        const auto found = numbers.find(hash);
        if (found == numbers.end()) return source;
        order.push_back(found->second);
        numbers.erase(found);
    }
    std::vector<bool> was_there(now.size());
    for (const std::uint64_t item : order) was_there[item] = true;
    for (std::uint64_t item = 0; item < now.size(); ++item)
        if (!was_there[item]) order.push_back(item);
    return std::make_unique<RenumberedSource>(std::move(source), std::move(order));
}

}  // namespace offramp
