#include "producer/runner/sources/source_part.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/error.hpp"
#include "producer/runner/sources/source_fingerprint.hpp"

namespace offramp {
namespace {

using ::testing::ElementsAre;

// Items with keys of their own, or without any; a row holds its item's number.
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

// What the run's outputs are named by.
std::vector<std::string> names(const BatchSource& source) {
    std::vector<std::string> all;
    for (std::uint64_t item = 0; item < source.items(); ++item)
        all.push_back(source.key(item).empty() ? std::to_string(item) : std::string(source.key(item)));
    return all;
}

TEST(SourcePart, WithoutLimitAndShardTheSourceIsItself) {
    auto whole = std::make_unique<Numbered>(5);
    const BatchSource* const same = whole.get();
    EXPECT_EQ(part_of(std::move(whole), part(0, "")).get(), same);
    whole = std::make_unique<Numbered>(5);
    EXPECT_EQ(part_of(std::move(whole), part(5, "1/1"))->description(), "numbers");
}

TEST(SourcePart, ShardsOfALimitedInputMakeUpTheLimitedInput) {
    for (const bool keyed : {false, true}) {
        const auto whole = [&] {
            return std::make_unique<Numbered>(
                120, keyed ? std::vector<std::string>(120, "same") : std::vector<std::string>{});
        };
        const std::vector<std::string> wanted = names(*part_of(whole(), part(107, "")));
        EXPECT_EQ(wanted.size(), 107U);
        std::vector<std::string> found;
        std::byte next{0};
        for (const char* const shard : {"1/4", "2/4", "3/4", "4/4"}) {
            const auto one = part_of(whole(), part(107, shard));
            for (std::uint64_t item = 0; item < one->items(); ++item) {
                std::byte row[1];
                one->load(item, row);
                EXPECT_EQ(row[0], next);
                EXPECT_EQ(one->origin(item), "number " + std::to_string(std::to_integer<int>(next)));
                EXPECT_LE(one->key(item).size(), one->max_key_bytes());
                next = static_cast<std::byte>(std::to_integer<int>(next) + 1);
            }
            const auto its = names(*one);
            found.insert(found.end(), its.begin(), its.end());
        }
        EXPECT_EQ(found, wanted);
    }
}

TEST(SourcePart, NumbersAreThoseOfTheWhole) {
    EXPECT_THAT(names(*part_of(std::make_unique<Numbered>(12), part(0, "4/5"))), ElementsAre("8", "9"));
    EXPECT_THAT(names(*part_of(std::make_unique<Numbered>(12), part(11, "3/3"))), ElementsAre("8", "9", "10"));
    EXPECT_EQ(part_of(std::make_unique<Numbered>(12), part(11, "3/3"))->max_key_bytes(), 2U);
}

TEST(SourcePart, OnlyKeysThatAreLeftNeedRoom) {
    EXPECT_EQ(part_of(std::make_unique<Numbered>(3, std::vector<std::string>{"a", "bb", "ccc"}), part(2, ""))
                  ->max_key_bytes(),
              2U);
}

TEST(SourcePart, SaysWhatItIs) {
    EXPECT_EQ(part_of(std::make_unique<Numbered>(12), part(10, "2/4"))->description(),
              "numbers, of which the first 10, of these shard 2/4: 3 from number 3 on");
}

TEST(SourcePart, PartsOfOneSourceHaveFingerprintsOfTheirOwn) {
    const auto print = [](const char* shard) {
        return source_fingerprint(*part_of(std::make_unique<Numbered>(12), part(0, shard)));
    };
    EXPECT_NE(print("1/3"), print("2/3"));
    EXPECT_NE(print("2/3"), print("3/3"));
    EXPECT_NE(print("1/3"), print(""));
    EXPECT_EQ(print("2/3"), print("2/3"));
}

TEST(SourcePart, AShardOfNothingIsRefused) {
    try {
        part_of(std::make_unique<Numbered>(3), part(0, "4/4"));
        FAIL() << "it was made";
    } catch (const ConfigError& error) {
        EXPECT_EQ(error.kind(), ErrorKind::NoInput);
        EXPECT_STREQ(error.what(), "--shard 4/4 of 3 items is empty. Make at most 3 shards");
    }
}

}  // namespace
}  // namespace offramp
