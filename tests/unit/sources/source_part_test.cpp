#include "producer/runner/sources/source_items.hpp"

#include <gtest/gtest.h>

#include "common/base/error.hpp"
#include "tests/support/error_of.hpp"

namespace offramp {
namespace {

// Items with or without keys; a row holds its item's number.
class Numbered final : public BatchSource {
  public:
    explicit Numbered(std::uint64_t items, std::vector<std::string> keys = {})
        : items_(items), keys_(std::move(keys)) {}
    std::string description() const override { return "numbers"; }
    std::uint64_t items() const override { return items_; }
    RowKind row_kind() const override { return RowKind::Float32; }
    std::string_view key(std::uint64_t item) const override {
        return keys_.empty() ? std::string_view{} : keys_.at(item);
    }
    std::size_t max_key_bytes() const override {
        std::size_t most = 0;
        for (const std::string& one : keys_) most = std::max(most, one.size());
        return most;
    }
    std::string origin(std::uint64_t item) const override { return "number " + std::to_string(item); }
    bool has_files() const override { return false; }
    void load(std::uint64_t item, std::span<std::byte> row) override { row[0] = static_cast<std::byte>(item); }

  private:
    std::uint64_t items_;
    std::vector<std::string> keys_;
};

RunConfig part(std::uint64_t limit, std::string shard) {
    RunConfig config;
    config.limit = limit;
    config.shard = std::move(shard);
    return config;
}

TEST(SourcePart, ReturnsTheSourceWithoutALimit) {
    auto whole = std::make_unique<Numbered>(5);
    const BatchSource* const same = whole.get();
    EXPECT_EQ(part_of(std::move(whole), part(0, "")).get(), same);
    whole = std::make_unique<Numbered>(5);
    EXPECT_EQ(part_of(std::move(whole), part(5, "2/3"))->description(), "numbers");
}

TEST(SourcePart, ALimitKeepsTheFirstItems) {
    const auto first = part_of(std::make_unique<Numbered>(12), part(10, "2/4"));
    EXPECT_EQ(first->items(), 10U);
    EXPECT_EQ(first->description(), "numbers, of which the first 10");
    EXPECT_EQ(first->items_of_the_whole(), 12U);
    EXPECT_FALSE(first->has_files());
    std::byte row[1];
    first->load(9, row);
    EXPECT_EQ(row[0], std::byte{9});
}

TEST(SourcePart, OnlyRemainingKeysNeedRoom) {
    EXPECT_EQ(part_of(std::make_unique<Numbered>(3, std::vector<std::string>{"a", "bb", "ccc"}), part(2, ""))
                  ->max_key_bytes(),
              2U);
}

TEST(SourceShare, IsTheWholeInputWithoutAShard) { EXPECT_EQ(share_of(Numbered(12), part(0, "")), (ItemRange{0, 12})); }

TEST(SourceShare, SharesOfALimitedInputAddUpToIt) {
    const auto limited = part_of(std::make_unique<Numbered>(120), part(107, ""));
    std::uint64_t next = 0;
    for (const char* const shard : {"1/4", "2/4", "3/4", "4/4"}) {
        const ItemRange share = share_of(*limited, part(107, shard));
        EXPECT_EQ(share.begin, next);
        EXPECT_NEAR(static_cast<double>(share.end - share.begin), 107.0 / 4, 1);
        next = share.end;
    }
    EXPECT_EQ(next, 107U);
}

TEST(SourceShare, RefusesAnEmptyShard) {
    EXPECT_EQ(test::error_of<ConfigError>([&] { share_of(Numbered(3), part(0, "4/4")); }, ErrorKind::NoInput),
              "--shard 4/4 of 3 items is empty. Make at most 3 shards");
}

}  // namespace
}  // namespace offramp
