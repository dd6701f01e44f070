#include "producer/runner/sources/source_items.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/app/settings/parsed_values.hpp"
#include "common/base/error.hpp"
#include "common/base/in_parts.hpp"
#include "common/wire/shape_text.hpp"

namespace offramp {
namespace {

// All cores hash these, before they are taken.
constexpr std::uint64_t kHashesAtOnce = 16 * kItemsOfAPart;

std::uint64_t hash_of_first(const BatchSource& source, std::uint64_t items, const TakeHashes& take = {}) {
    const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(), &XXH3_freeState);
    XXH3_64bits_reset_withSeed(state.get(), items);
    // Items without keys and notes are named by their numbers.
    if (source.max_key_bytes() > 0 || source.has_notes())
        hash_items(source, {0, items}, [&](std::span<const std::uint64_t> hashes) {
            XXH3_64bits_update(state.get(), hashes.data(), hashes.size_bytes());
            if (take) take(hashes);
        });
    return XXH3_64bits_digest(state.get());
}

// The first items of another source.
class FirstItems final : public BatchSource {
  public:
    FirstItems(std::unique_ptr<BatchSource> whole, std::uint64_t items) : whole_(std::move(whole)), items_(items) {
        if (whole_->max_key_bytes() > 0) max_key_bytes_ = bytes_of_longest_key(*this);
    }

    std::string description() const override {
        return whole_->description() + ", of which the first " + std::to_string(items_);
    }
    std::vector<LeftOut> left_out() const override { return whole_->left_out(); }
    std::uint64_t items() const override { return items_; }
    RowKind row_kind() const override { return whole_->row_kind(); }
    std::span<const std::int64_t> shape(std::uint64_t item) const override { return whole_->shape(item); }
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
    std::string_view end_of_file(std::uint64_t item) const override { return whole_->end_of_file(item); }
    bool has_files() const override { return whole_->has_files(); }
    void load(std::uint64_t item, std::span<std::byte> row) override { whole_->load(item, row); }

  private:
    std::unique_ptr<BatchSource> whole_;
    std::uint64_t items_;
    std::size_t max_key_bytes_ = 0;
};

class RenumberedSource final : public BatchSource {
  public:
    RenumberedSource(std::unique_ptr<BatchSource> source, std::vector<std::uint64_t> order,
                     std::vector<ItemShapes::Shape> shapes)
        : source_(std::move(source)), order_(std::move(order)), shapes_(std::move(shapes)) {}

    std::string description() const override { return source_->description(); }
    std::vector<LeftOut> left_out() const override { return source_->left_out(); }
    std::uint64_t items() const override { return source_->items(); }
    RowKind row_kind() const override { return source_->row_kind(); }
    std::span<const std::int64_t> shape(std::uint64_t item) const override {
        return was_read(item) ? shapes_[item] : source_->shape(order_[item]);
    }
    std::string_view key(std::uint64_t item) const override { return source_->key(order_[item]); }
    std::string_view key_of_whole(std::uint64_t item) const override { return source_->key_of_whole(order_[item]); }
    std::size_t max_key_bytes() const override { return source_->max_key_bytes(); }
    std::uint64_t note_hash(std::uint64_t item) const override { return source_->note_hash(order_[item]); }
    std::uint64_t stamp(std::uint64_t item) const override { return source_->stamp(order_[item]); }
    bool has_notes() const override { return source_->has_notes(); }
    std::string origin(std::uint64_t item) const override { return source_->origin(order_[item]); }
    std::string file(std::uint64_t item) const override { return source_->file(order_[item]); }
    std::string_view end_of_file(std::uint64_t item) const override { return source_->end_of_file(order_[item]); }
    bool has_files() const override { return source_->has_files(); }
    void load(std::uint64_t item, std::span<std::byte> row) override {
        const std::span<const std::int64_t> now = source_->shape(order_[item]);
        if (was_read(item) && !now.empty() && !std::ranges::equal(now, shapes_[item]))
            throw UnreadableItem("its shape was " + shape_text(shapes_[item]) + " in an earlier run, and is " +
                                 shape_text(now) + "; --overwrite instead of --resume processes every item again");
        source_->load(order_[item], row);
    }

  private:
    bool was_read(std::uint64_t item) const { return item < shapes_.size() && !shapes_[item].empty(); }

    std::unique_ptr<BatchSource> source_;
    std::vector<std::uint64_t> order_;       // the source's number for each item
    std::vector<ItemShapes::Shape> shapes_;  // of the earlier run's items
};

bool begins_with(const BatchSource& source, std::span<const std::uint64_t> hashes) {
    bool is_same = true;
    hash_items(source, {0, hashes.size()}, [&](std::span<const std::uint64_t> now) {
        is_same = is_same && std::ranges::equal(now, hashes.first(now.size()));
        hashes = hashes.subspan(now.size());
    });
    return is_same;
}

// `longer` is BETWEEN.SHORTER.
struct Nested {
    std::string_view longer, shorter;
    std::string between;  // begins with a dot
};

std::vector<Nested> nested_names(std::span<const TensorSpec> outputs) {
    std::vector<Nested> nested;
    for (const TensorSpec& longer : outputs)
        for (const TensorSpec& shorter : outputs)
            if (longer.name.size() > shorter.name.size() + 1 && longer.name.ends_with("." + shorter.name))
                nested.push_back({longer.name, shorter.name,
                                  "." + longer.name.substr(0, longer.name.size() - shorter.name.size() - 1)});
    return nested;
}

}  // namespace

void hash_items(const BatchSource& source, ItemRange items, const TakeHashes& take) {
    const bool has_keys = source.max_key_bytes() > 0, has_notes = source.has_notes();
    std::vector<std::uint64_t> hashes;
    while (items.begin < items.end) {
        const std::uint64_t count = std::min(items.end - items.begin, kHashesAtOnce);
        hashes.resize(count);
        in_parts(count, [&](std::uint64_t begin, std::uint64_t end) {
            for (std::uint64_t i = begin; i < end; ++i) {
                const std::uint64_t item = items.begin + i, note = has_notes ? source.note_hash(item) : 0;
                const std::string_view key = has_keys ? source.key(item) : std::string_view();
                hashes[i] = has_keys ? XXH3_64bits_withSeed(key.data(), key.size(), note) : note;
            }
        });
        take(hashes);
        items.begin += count;
    }
}

std::uint64_t source_hash(const BatchSource& source) {
    return source.index() != nullptr ? source.index()->items_hash : hash_of_first(source, source.items());
}

std::uint64_t source_hash(const BatchSource& source, const TakeHashes& take) {
    return hash_of_first(source, source.items(), take);
}

std::string source_fingerprint(const BatchSource& source) { return source_fingerprint(source_hash(source)); }

std::string source_fingerprint(std::uint64_t hash) { return fmt::format("{:016x}", hash); }

std::string source_fingerprint(const BatchSource& source, std::uint64_t items) {
    return source_fingerprint(hash_of_first(source, items));
}

std::string source_fingerprint(std::span<const std::uint64_t> hashes) {
    return source_fingerprint(XXH3_64bits_withSeed(hashes.data(), hashes.size_bytes(), hashes.size()));
}

std::vector<std::uint64_t> hashes_of_items(const BatchSource& source) {
    std::vector<std::uint64_t> all;
    if (source.max_key_bytes() == 0) return all;
    all.reserve(source.items());
    hash_items(source, {0, source.items()},
               [&](std::span<const std::uint64_t> hashes) { all.insert(all.end(), hashes.begin(), hashes.end()); });
    return all;
}

std::size_t bytes_of_longest_key(const BatchSource& source) {
    std::atomic<std::size_t> longest{0};
    in_parts(source.items(), [&](std::uint64_t begin, std::uint64_t end) {
        std::size_t bytes = 0;
        for (std::uint64_t item = begin; item < end; ++item) bytes = std::max(bytes, source.key(item).size());
        for (std::size_t known = longest; known < bytes && !longest.compare_exchange_weak(known, bytes);) {
        }
    });
    return longest;
}

std::vector<ItemShapes::Shape> shapes_of_items(const BatchSource& source) {
    std::vector<ItemShapes::Shape> shapes;
    if (source.index() != nullptr) return shapes;
    std::atomic<bool> has_any{false};
    in_parts(source.items(), [&](std::uint64_t begin, std::uint64_t end) {
        for (std::uint64_t item = begin; item < end && !has_any; ++item)
            if (!source.shape(item).empty()) has_any = true;
    });
    if (!has_any) return shapes;
    for (std::uint64_t item = 0; item < source.items(); ++item) {
        const std::span<const std::int64_t> shape = source.shape(item);
        if (shape.empty()) continue;
        shapes.resize(source.items());
        shapes[item].assign(shape.begin(), shape.end());
    }
    return shapes;
}

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

std::unique_ptr<BatchSource> in_previous_order(std::unique_ptr<BatchSource> source,
                                               std::span<const std::uint64_t> previous,
                                               std::vector<ItemShapes::Shape> shapes) {
    if (previous.empty() || source->max_key_bytes() == 0 || source->items() < previous.size()) return source;
    const bool is_in_order = begins_with(*source, previous);
    if (shapes.empty() && is_in_order) return source;
    const std::vector<std::uint64_t> now = hashes_of_items(*source);
    std::vector<std::uint64_t> by_hash(now.size());
    std::iota(by_hash.begin(), by_hash.end(), 0);
    std::ranges::sort(by_hash, {}, [&](std::uint64_t item) { return std::pair(now[item], item); });
    const auto equal = std::ranges::adjacent_find(by_hash, {}, [&](std::uint64_t item) { return now[item]; });
    if (equal != by_hash.end() && !is_in_order)
        throw Error(ErrorKind::BadInput,
                    "the items " + std::string(source->key(equal[0])) + " and " + std::string(source->key(equal[1])) +
                        " have the same hash, and the input's order has changed",
                    "Give the items in their earlier order, or --overwrite instead of --resume");
    std::vector<std::uint64_t> order;
    order.reserve(now.size());
    std::vector<bool> was_there(now.size());
    for (const std::uint64_t hash : previous) {
        auto found = std::ranges::lower_bound(by_hash, hash, {}, [&](std::uint64_t item) { return now[item]; });
        while (found != by_hash.end() && was_there[*found]) ++found;
        if (found == by_hash.end() || now[*found] != hash) return source;
        order.push_back(*found);
        was_there[*found] = true;
    }
    for (std::uint64_t item = 0; item < now.size(); ++item)
        if (!was_there[item]) order.push_back(item);
    return std::make_unique<RenumberedSource>(std::move(source), std::move(order), std::move(shapes));
}

bool may_have_equal_results(std::span<const TensorSpec> outputs) { return !nested_names(outputs).empty(); }

void require_distinct_results(const BatchSource& source, std::span<const TensorSpec> outputs) {
    const std::vector<Nested> nested = nested_names(outputs);
    expect(nested.empty() || source.index() == nullptr, "all keys are compared");
    if (nested.empty() || source.max_key_bytes() == 0) return;
    std::unordered_set<std::string_view> keys;
    for (std::uint64_t item = 0; item < source.items(); ++item) keys.insert(source.key(item));
    for (std::uint64_t item = 0; item < source.items(); ++item)
        for (const Nested& names : nested) {
            const std::string key(source.key(item));
            if (!keys.contains(key + names.between)) continue;
            throw ConfigError("two results would be called '" + key + "." + std::string(names.longer) +
                                  "': the output '" + std::string(names.longer) + "' of the item '" + key +
                                  "', and the output '" + std::string(names.shorter) + "' of the item '" + key +
                                  names.between + "'",
                              "Rename one of the two items, or give the outputs other names (outputs = \"...\" in the "
                              "metadata beside the model)");
        }
}

}  // namespace offramp
