#include "producer/runner/ingest/prefetcher.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <map>
#include <set>

#include "tests/support/error_of.hpp"
#include "tests/unit/ingest/prefetch_world.hpp"

namespace offramp {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::int64_t kRowFloats = 6;

ModelInput features(std::uint32_t batch, DType dtype = kFloat32) {
    return {.kind = InputKind::Feature,
            .tensor = TensorSpec::contiguous("x", dtype, std::vector<std::int64_t>{batch, kRowFloats}),
            .parts = {}};
}

struct PrefetcherTest : ::testing::Test {
    static PrefetchSettings settings(std::uint32_t batch, std::uint32_t workers = 3, std::uint32_t depth = 1) {
        return {.input = features(batch), .batch = batch, .decode_workers = workers, .depth = depth};
    }

    // The contents of the batch's buffer, seen by a model's stream.
    template <typename T = float>
    std::vector<T> contents(const InputBatch& batch, std::size_t count) {
        std::vector<T> values(count);
        batch.wait_ready(*compute);
        compute->copy_to_host(reinterpret_cast<std::byte*>(values.data()), batch.data(), count * sizeof(T));
        compute->synchronize();
        return values;
    }

    std::unique_ptr<Device> device = open_cpu_device();
    std::unique_ptr<Stream> compute = device->make_stream("compute");
};

TEST_F(PrefetcherTest, BatchesComeInOrderAndTheLastIsZeroPadded) {
    FakeSource source(22, RowKind::Float32);
    Prefetcher prefetcher(*device, source, settings(4));
    for (std::uint64_t number = 0; number < 6; ++number) {
        auto batch = prefetcher.next();
        ASSERT_TRUE(batch);
        EXPECT_EQ(batch->number(), number);
        const std::size_t rows = number == 5 ? 2 : 4;
        ASSERT_EQ(batch->rows().size(), rows);
        const std::vector<float> values = contents(*batch, 4 * kRowFloats);
        for (std::size_t row = 0; row < 4; ++row) {
            const std::uint64_t item = number * 4 + row;
            EXPECT_EQ(values[row * kRowFloats], row < rows ? static_cast<float>(item + 1) : 0.0F);
            if (row >= rows) continue;
            EXPECT_EQ(batch->rows()[row].item, item);
            EXPECT_EQ(batch->rows()[row].key, "key-" + std::to_string(item));
        }
        batch->release_after(*compute);
    }
    EXPECT_FALSE(prefetcher.next());
    EXPECT_FALSE(prefetcher.next());
    const auto progress = prefetcher.progress();
    EXPECT_EQ(progress.batches_delivered, 6U);
    EXPECT_EQ(progress.items_delivered, 22U);
    EXPECT_EQ(progress.items_skipped, 0U);
}

TEST_F(PrefetcherTest, ABatchHasConsecutiveItemsOfOneShape) {
    FakeSource source(9, RowKind::Float32);
    source.shapes = {{}, {2, 3}, {2, 3}, {2, 3}, {}, {2, 1}, {2, 3}, {2, 3}, {}};
    source.on_load = [&source](std::uint64_t item, std::span<std::byte> row) {
        if (source.shapes[item].empty()) throw UnreadableItem("no shape");
        FakeSource::fill(item, row);
    };
    PrefetchSettings wanted = settings(3);
    wanted.input.tensor.dims = 3;
    wanted.input.tensor.shape = {3, 2, kVarying};
    wanted.input.tensor.strides = {};
    wanted.done.add({1, 2});
    const std::vector<std::vector<std::uint64_t>> batches{{0, 1, 2}, {3, 4}, {5}, {6, 7, 8}};
    Prefetcher prefetcher(*device, source, wanted);
    for (std::uint64_t number = 0; number < batches.size(); ++number) {
        auto batch = prefetcher.next();
        ASSERT_TRUE(batch);
        EXPECT_EQ(batch->number(), number);
        ASSERT_EQ(batch->rows().size(), batches[number].size());
        ASSERT_NE(batch->own_shape(), nullptr);
        const TensorSpec& shape = *batch->own_shape();
        const std::int64_t width = number == 2 ? 1 : 3;
        EXPECT_EQ(shape, TensorSpec::contiguous(
                             "x", kFloat32,
                             std::vector<std::int64_t>{static_cast<std::int64_t>(batches[number].size()), 2, width}));
        const std::vector<float> values = contents(*batch, shape.elements());
        for (std::size_t row = 0; row < batches[number].size(); ++row) {
            const std::uint64_t item = batches[number][row];
            const bool empty = source.shapes[item].empty() || item == 1;
            EXPECT_EQ(batch->rows()[row].item, item);
            EXPECT_EQ(batch->rows()[row].empty, empty);
            EXPECT_EQ(values[row * shape.row_bytes() / sizeof(float)], empty ? 0.0F : static_cast<float>(item + 1));
        }
        batch->release_after(*compute);
    }
    EXPECT_FALSE(prefetcher.next());
}

TEST_F(PrefetcherTest, ManyNumbersMakeSmallerBatches) {
    FakeSource source(5, RowKind::Float32);
    source.shapes.assign(5, {1 << 24});
    source.on_load = [](std::uint64_t, std::span<std::byte>) {};
    PrefetchSettings wanted = settings(4);
    wanted.input.tensor.shape = {4, kVarying};
    wanted.input.tensor.strides = {};
    Prefetcher prefetcher(*device, source, wanted);
    for (const std::size_t rows : {2U, 2U, 1U}) EXPECT_EQ(prefetcher.next()->rows().size(), rows);
    EXPECT_FALSE(prefetcher.next());
}

TEST_F(PrefetcherTest, PixelsAreNormalisedOnTheDevice) {
    FakeSource source(2, RowKind::Pixels);
    source.on_load = [](std::uint64_t item, std::span<std::byte> row) {
        ASSERT_EQ(row.size(), 2U * 3 * 3);
        for (std::size_t i = 0; i < row.size(); ++i) row[i] = static_cast<std::byte>(10 * item + i);
    };
    PrefetchSettings wanted{.batch = 2, .decode_workers = 2, .depth = 1};
    wanted.input = {.kind = InputKind::Image,
                    .tensor = TensorSpec::contiguous("image", kFloat32, std::vector<std::int64_t>{2, 3, 2, 3})};
    Prefetcher prefetcher(*device, source, wanted);
    const auto batch = prefetcher.next();
    const std::vector<float> values = contents(*batch, 2 * 18);
    for (std::size_t row = 0; row < 2; ++row)
        for (std::size_t channel = 0; channel < 3; ++channel)
            for (std::size_t pixel = 0; pixel < 6; ++pixel) {
                const float byte = static_cast<float>(10 * row + pixel * 3 + channel);
                EXPECT_NEAR(values[row * 18 + channel * 6 + pixel],
                            (byte / 255 - wanted.input.mean[channel]) / wanted.input.std[channel], 1e-5);
            }
}

TEST_F(PrefetcherTest, FloatsAreConvertedForABfloat16Model) {
    FakeSource source(3, RowKind::Float32);
    PrefetchSettings wanted = settings(3);
    wanted.input = features(3, kBFloat16);
    Prefetcher prefetcher(*device, source, wanted);
    const auto batch = prefetcher.next();
    const auto values = contents<std::uint16_t>(*batch, 3 * kRowFloats);
    EXPECT_EQ(values[0], 0x3f80);               // 1
    EXPECT_EQ(values[kRowFloats], 0x4000);      // 2
    EXPECT_EQ(values[2 * kRowFloats], 0x4040);  // 3
}

ModelInput texts(std::uint32_t batch, std::uint32_t group_rows) {
    return {.kind = InputKind::Feature,
            .tensor = TensorSpec::contiguous("tokens", kInt32, std::vector<std::int64_t>{batch, 2, 16}),
            .parts = {},
            .group_rows = group_rows};
}

// The requested number of tokens, each the item's number.
void fill_text(std::uint64_t item, std::uint32_t tokens, std::span<std::byte> row) {
    std::vector<std::int32_t> numbers(row.size() / sizeof(std::int32_t));
    std::fill_n(numbers.begin(), tokens, static_cast<std::int32_t>(item));
    std::fill_n(numbers.begin() + static_cast<std::ptrdiff_t>(numbers.size() / 2), tokens, 1);
    std::memcpy(row.data(), numbers.data(), row.size());
}

std::uint32_t tokens_of(std::uint64_t item) { return static_cast<std::uint32_t>(1 + item * 7 % 16); }

TEST_F(PrefetcherTest, GroupsTextsBySimilarLength) {
    FakeSource source(11, RowKind::Tokens);
    source.on_load = [](std::uint64_t item, std::span<std::byte> row) {
        fill_text(item, tokens_of(item), row);
        if (item == 2) throw UnreadableItem("no text");
    };
    PrefetchSettings wanted = settings(8);
    wanted.input = texts(8, 2);
    Prefetcher prefetcher(*device, source, wanted);
    std::uint64_t tokens = 0;
    for (std::uint64_t number = 0; number < 2; ++number) {
        const auto batch = prefetcher.next();
        ASSERT_NE(batch->groups(), nullptr);
        const LengthGroups& groups = *batch->groups();
        EXPECT_EQ(groups.groups.size(), number == 0 ? 4U : 2U);
        const auto bytes = contents<std::byte>(*batch, groups.bytes);
        for (std::size_t row = 0; row < batch->rows().size(); ++row) {
            const std::uint64_t item = number * 8 + row;
            EXPECT_EQ(batch->rows()[row].item, item);
            EXPECT_EQ(batch->rows()[row].empty, item == 2);
            if (item == 2) continue;
            std::int64_t place = 0;
            std::memcpy(&place, bytes.data() + row * sizeof place, sizeof place);
            EXPECT_EQ(place, groups.places[row]);
            const LengthGroups::Group& group = groups.groups[static_cast<std::size_t>(place) / 2];
            std::vector<std::int32_t> numbers(2 * group.length);
            const std::size_t row_bytes = numbers.size() * sizeof(std::int32_t);
            std::memcpy(numbers.data(), bytes.data() + group.offset + static_cast<std::size_t>(place) % 2 * row_bytes,
                        row_bytes);
            EXPECT_EQ(std::count(numbers.begin() + group.length, numbers.end(), 1), tokens_of(item));
            EXPECT_EQ(std::count(numbers.begin(), numbers.begin() + tokens_of(item), static_cast<std::int32_t>(item)),
                      tokens_of(item));
            tokens += tokens_of(item);
        }
    }
    const Prefetcher::Progress progress = prefetcher.progress();
    EXPECT_EQ(progress.tokens, tokens);
    EXPECT_GE(progress.padded_tokens, tokens);
    EXPECT_LT(progress.padded_tokens, 2U * 8 * 16);
}

TEST_F(PrefetcherTest, RecomputesDoneTextsOfAPartlyDoneBatch) {
    const auto packed = [&](ItemRanges done) {
        FakeSource source(22, RowKind::Tokens);
        source.on_load = [](std::uint64_t item, std::span<std::byte> row) {
            fill_text(item, tokens_of(item), row);
            if (item % 9 == 4) throw UnreadableItem("no text");
        };
        PrefetchSettings wanted = settings(8);
        wanted.input = texts(8, 4);
        wanted.done = std::move(done);
        Prefetcher prefetcher(*device, source, wanted);
        std::map<std::uint64_t, std::vector<std::byte>> batches;
        while (const auto batch = prefetcher.next()) {
            if (batch->left_out()) continue;
            batches.emplace(batch->number(), contents<std::byte>(*batch, batch->groups()->bytes));
            for (const RowInfo& row : batch->rows())
                EXPECT_EQ(wanted.done.contains(row.item), row.done && row.empty && row.key.empty());
        }
        return batches;
    };
    const auto whole = packed({});
    ASSERT_EQ(whole.size(), 3U);
    rc::check([&] {
        ItemRanges done;
        for (const auto item : *rc::gen::container<std::set<std::uint64_t>>(rc::gen::inRange<std::uint64_t>(0, 22)))
            done.add({item, item + 1});
        for (const auto& [number, bytes] : packed(done)) RC_ASSERT(bytes == whole.at(number));
    });
}

TEST_F(PrefetcherTest, CountsTokensOfUngroupedBatches) {
    FakeSource source(11, RowKind::Tokens);
    source.on_load = [](std::uint64_t item, std::span<std::byte> row) { fill_text(item, 3, row); };
    PrefetchSettings wanted = settings(8);
    wanted.input = texts(8, 0);
    Prefetcher prefetcher(*device, source, wanted);
    while (const auto batch = prefetcher.next()) {
        EXPECT_EQ(batch->groups(), nullptr);
        ASSERT_EQ(batch->texts().size(), 8U);
        for (std::size_t row = 0; row < 8; ++row)
            EXPECT_EQ(batch->texts()[row], (TokenRows{row * 16, row < batch->rows().size() ? 3U : 0U}));
    }
    EXPECT_EQ(prefetcher.progress().tokens, 33U);
    EXPECT_EQ(prefetcher.progress().padded_tokens, 2U * 8 * 16);
}

TEST_F(PrefetcherTest, AnUnreadableItemIsAHoleInItsPlace) {
    FakeSource source(9, RowKind::Float32);
    source.on_load = [](std::uint64_t item, std::span<std::byte> row) {
        FakeSource::fill(item, row);  // half-decoded bytes must not remain
        if (item == 2 || item == 7) throw UnreadableItem("reason " + std::to_string(item));
    };
    Prefetcher prefetcher(*device, source, settings(4));
    for (std::uint64_t number = 0; number < 3; ++number) {
        auto batch = prefetcher.next();
        const std::vector<float> values = contents(*batch, 4 * kRowFloats);
        for (std::size_t row = 0; row < batch->rows().size(); ++row) {
            const std::uint64_t item = number * 4 + row;
            const bool is_empty = item == 2 || item == 7;
            EXPECT_EQ(batch->rows()[row].item, item);
            EXPECT_EQ(batch->rows()[row].empty, is_empty);
            EXPECT_EQ(batch->rows()[row].reason, is_empty ? "reason " + std::to_string(item) : "");
            EXPECT_EQ(values[row * kRowFloats + 5], is_empty ? 0.0F : static_cast<float>(item + 1));
        }
        EXPECT_EQ(empty_rows(*batch), number < 2 ? 1U : 0U);
    }
    EXPECT_FALSE(prefetcher.next());
    EXPECT_EQ(prefetcher.skipped().total(), 2U);
    const auto list = prefetcher.skipped().list();
    EXPECT_EQ(list[1].item, 7U);
    EXPECT_EQ(list[1].origin, "/fake/7");
    EXPECT_EQ(list[1].reason, "reason 7");
    EXPECT_EQ(prefetcher.progress().items_skipped, 2U);
}

TEST_F(PrefetcherTest, AResidentInputIsOneBufferOfSeededNumbers) {
    FakeSource source(5, RowKind::Nothing);
    std::vector<std::vector<float>> seen;
    for (const std::uint64_t seed : {1U, 1U, 2U}) {
        PrefetchSettings wanted = settings(2);
        wanted.seed = seed;
        Prefetcher prefetcher(*device, source, wanted);
        std::set<const void*> buffers;
        std::uint64_t items = 0;
        while (auto batch = prefetcher.next()) {
            EXPECT_EQ(batch->ready(), nullptr);
            buffers.insert(batch->data());
            for (const RowInfo& row : batch->rows()) EXPECT_EQ(row.item, items++);
            seen.push_back(contents(*batch, 2 * kRowFloats));
            batch->release_after(*compute);
        }
        EXPECT_EQ(items, 5U);
        EXPECT_EQ(buffers.size(), 1U);
    }
    EXPECT_EQ(seen[0], seen[1]);
    EXPECT_EQ(seen[0], seen[3]);
    EXPECT_NE(seen[0], seen[6]);
    EXPECT_EQ(source.loads, 0U);
    EXPECT_NE(seen[0][0], seen[0][kRowFloats]);
}

TEST_F(PrefetcherTest, ResidentTokensFitAnyVocabularyWithoutAMask) {
    FakeSource source(2, RowKind::Nothing);
    PrefetchSettings wanted{.batch = 2};
    wanted.input = {.kind = InputKind::Feature,
                    .tensor = TensorSpec::contiguous("tokens", kInt32, std::vector<std::int64_t>{2, 2, 3})};
    Prefetcher prefetcher(*device, source, wanted);
    const auto batch = prefetcher.next();
    EXPECT_EQ(contents<std::int32_t>(*batch, 12), (std::vector<std::int32_t>{0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1}));
    EXPECT_EQ(std::vector(batch->texts().begin(), batch->texts().end()), (std::vector<TokenRows>{{0, 3}, {3, 3}}));
}

// features float32 [2, 3] and ids int64 [2, 1], in rows of 32 bytes.
ModelInput arrays() {
    return {.kind = InputKind::Arrays,
            .tensor = TensorSpec::contiguous("inputs", kUInt8, std::vector<std::int64_t>{2, 32}),
            .parts = {
                {.tensor = TensorSpec::contiguous("features", kFloat32, std::vector<std::int64_t>{2, 3}), .offset = 0},
                {.tensor = TensorSpec::contiguous("ids", kInt64, std::vector<std::int64_t>{2, 1}), .offset = 16}}};
}

TEST_F(PrefetcherTest, CopiesRowsOfArraysUnchanged) {
    FakeSource source(3, RowKind::Arrays);
    source.on_load = [](std::uint64_t item, std::span<std::byte> row) {
        ASSERT_EQ(row.size(), 32U);
        for (std::size_t i = 0; i < row.size(); ++i) row[i] = static_cast<std::byte>(100 * (item + 1) + i);
    };
    PrefetchSettings wanted = settings(2);
    wanted.input = arrays();
    Prefetcher prefetcher(*device, source, wanted);
    const auto values = contents<std::uint8_t>(*prefetcher.next(), 64);
    for (std::size_t i = 0; i < 64; ++i) EXPECT_EQ(values[i], (100 * (i / 32 + 1) + i % 32) % 256) << i;
    EXPECT_EQ(contents<std::uint8_t>(*prefetcher.next(), 64)[63], 0) << "a missing row is zero";
}

TEST_F(PrefetcherTest, AResidentInputOfArraysIsNoiseAndZeros) {
    FakeSource source(2, RowKind::Nothing);
    PrefetchSettings wanted = settings(2);
    wanted.input = arrays();
    Prefetcher prefetcher(*device, source, wanted);
    const auto values = contents<float>(*prefetcher.next(), 16);
    for (const std::size_t at : {0U, 1U, 2U, 8U, 9U, 10U}) EXPECT_NE(values[at], 0.0F) << at;
    for (const std::size_t at : {3U, 4U, 5U, 11U, 12U, 13U}) EXPECT_EQ(values[at], 0.0F) << at;
    EXPECT_NE(values[0], values[8]);
}

TEST_F(PrefetcherTest, RefusesOtherSourcesForAModelOfArrays) {
    FakeSource source(2, RowKind::Float32);
    PrefetchSettings wanted = settings(2);
    wanted.input = arrays();
    EXPECT_THAT(test::error_of<ConfigError>([&] { Prefetcher prefetcher(*device, source, wanted); }),
                AllOf(HasSubstr("the source gives no arrays"), HasSubstr("--source npy")));
}

TEST_F(PrefetcherTest, GivesNoInputToAModelWithoutOne) {
    FakeSource source(5, RowKind::Nothing);
    PrefetchSettings wanted{.batch = 4};
    Prefetcher prefetcher(*device, source, wanted);
    EXPECT_EQ(prefetcher.next()->data(), nullptr);
    EXPECT_EQ(prefetcher.next()->rows().size(), 1U);
    EXPECT_FALSE(prefetcher.next());
}

TEST_F(PrefetcherTest, EndsImmediatelyWithoutItems) {
    for (const RowKind kind : {RowKind::Nothing, RowKind::Float32}) {
        FakeSource source(0, kind);
        Prefetcher prefetcher(*device, source, settings(4));
        EXPECT_FALSE(prefetcher.next());
    }
}

// At most the staged, uploaded, queued and lent batches are made ahead.
TEST_F(PrefetcherTest, ASlowModelHoldsTheWorkersBack) {
    constexpr std::uint32_t kBatch = 2, kDepth = 2;
    constexpr std::uint64_t kAhead = 2 * (kDepth + 1);  // as many staging buffers as device inputs
    FakeSource source(60, RowKind::Float32);
    std::atomic<std::uint64_t> released{0};
    std::atomic<bool> too_far{false};
    source.on_load = [&](std::uint64_t item, std::span<std::byte> row) {
        if (item / kBatch >= released + kAhead) too_far = true;
        FakeSource::fill(item, row);
    };
    Prefetcher prefetcher(*device, source, settings(kBatch, 4, kDepth));
    while (true) {
        // As far ahead as buffers allow, or to the end.
        yield_until([&] { return source.loads == std::min<std::uint64_t>(60, (released + kAhead) * kBatch); });
        auto batch = prefetcher.next();
        if (!batch) break;
        contents(*batch, kRowFloats);
        ++released;
        batch->release_after(*compute);
    }
    EXPECT_EQ(released, 30U);
    EXPECT_FALSE(too_far);
}

TEST_F(PrefetcherTest, DoesNotOverwriteAnInputInUse) {
    FakeSource source(4, RowKind::Float32);
    Prefetcher prefetcher(*device, source, settings(2, 1, 0));  // one device input
    auto first = prefetcher.next();
    const void* const memory = first->data();
    StreamGate running_model;
    first->wait_ready(*compute);
    running_model.hold(*compute);
    std::vector<float> seen(2 * kRowFloats);
    compute->copy_to_host(reinterpret_cast<std::byte*>(seen.data()), memory, seen.size() * sizeof(float));
    first->release_after(*compute);
    auto second = prefetcher.next();  // returned while the model runs: the host does not wait
    ASSERT_EQ(second->data(), memory);
    EXPECT_FALSE(second->ready()->done());
    running_model.open();
    EXPECT_EQ(contents(*second, 1)[0], 3.0F);
    EXPECT_EQ(seen[0], 1.0F);
    EXPECT_EQ(seen[kRowFloats], 2.0F);
}

TEST_F(PrefetcherTest, ALongRunWithoutWaitsComputesOnTheRightBytes) {
    constexpr std::uint64_t kBatches = 200;
    FakeSource source(kBatches * 3, RowKind::Float32);
    std::vector<float> seen(kBatches * 3 * kRowFloats);
    Prefetcher prefetcher(*device, source, settings(3, 2, 1));
    while (auto batch = prefetcher.next()) {
        batch->wait_ready(*compute);
        compute->copy_to_host(reinterpret_cast<std::byte*>(&seen[batch->number() * 3 * kRowFloats]), batch->data(),
                              3 * kRowFloats * sizeof(float));
        batch->release_after(*compute);
    }
    compute->synchronize();
    for (std::uint64_t i = 0; i < seen.size(); ++i) {
        const std::uint64_t row = i / kRowFloats;
        ASSERT_EQ(seen[i], static_cast<float>(row + 1));
    }
}

TEST_F(PrefetcherTest, PassesAWorkersExceptionToNext) {
    FakeSource source(40, RowKind::Float32);
    source.on_load = [](std::uint64_t item, std::span<std::byte> row) {
        if (item == 13) throw std::runtime_error("disk on fire");
        FakeSource::fill(item, row);
    };
    Prefetcher prefetcher(*device, source, settings(4));
    const auto run = [&] {
        while (auto batch = prefetcher.next()) batch->release_after(*compute);
    };
    for (int again = 0; again < 2; ++again) try {
            run();
            FAIL() << "it succeeded";
        } catch (const std::runtime_error& error) {
            EXPECT_STREQ(error.what(), "disk on fire");
        }
    EXPECT_LT(prefetcher.progress().batches_delivered, 4U);
}

TEST_F(PrefetcherTest, TooManyUnreadableItemsFailTheRun) {
    FakeSource source(1000, RowKind::Float32);
    source.unreadable = [](std::uint64_t item) { return item % 10 == 3; };
    PrefetchSettings wanted = settings(4, 2);
    wanted.max_errors = "2";
    Prefetcher prefetcher(*device, source, wanted);
    EXPECT_THAT(test::error_of(
                    [&] {
                        while (auto batch = prefetcher.next()) batch->release_after(*compute);
                    },
                    ErrorKind::BadInput),
                AllOf(HasSubstr("of 1000 items"), HasSubstr("--max-errors 2"), HasSubstr("/fake/3: torn")));
    EXPECT_LT(source.loads, 100U);
    EXPECT_EQ(prefetcher.skipped().list().size(), prefetcher.progress().items_skipped)
        << "items only read ahead are left to do";
    EXPECT_GE(prefetcher.skipped().list().size() + prefetcher.unreadable_upcoming().size(), 3U) << "no finding is lost";
}

TEST_F(PrefetcherTest, ItemsOfARefusedBatchAreSkipped) {
    FakeSource source(12, RowKind::Float32);
    source.unreadable = [](std::uint64_t item) { return item == 1; };
    PrefetchSettings wanted = settings(4);
    wanted.max_errors = "4";
    Prefetcher prefetcher(*device, source, wanted);
    auto batch = prefetcher.next();
    prefetcher.refuse(*batch, "the model failed");
    batch->release_after(*compute);
    EXPECT_TRUE(batch->left_out());
    EXPECT_EQ(batch->rows()[0].reason, "the model failed");
    EXPECT_EQ(batch->rows()[1].reason, "torn");
    EXPECT_EQ(prefetcher.progress().items_skipped, 4U);
    EXPECT_EQ(prefetcher.progress().items_delivered, 4U);
    EXPECT_EQ(prefetcher.skipped().total(), 4U);
    batch = prefetcher.next();
    EXPECT_THAT(test::error_of([&] { prefetcher.refuse(*batch, "the model failed again"); }, ErrorKind::BadInput),
                AllOf(HasSubstr("8 of 12 items had to be skipped, and --max-errors 4 allows 4"),
                      HasSubstr("/fake/0: the model failed; /fake/1: torn")));
    batch->release_after(*compute);
    EXPECT_EQ(prefetcher.skipped().total(), 8U);
    EXPECT_TRUE(prefetcher.unreadable_upcoming().empty());
}

TEST_F(PrefetcherTest, ReportsTheReadAheadPartsOfAPictureAsOne) {
    FakeSource source(1000, RowKind::Float32);
    source.whole = "b";
    std::atomic<bool> may_read_ahead = false;
    source.on_load = [&](std::uint64_t item, std::span<std::byte> row) {
        if (item >= 8) may_read_ahead.wait(false);
        if (item >= 6) throw UnreadableItem("torn");
        FakeSource::fill(item, row);
    };
    PrefetchSettings wanted = settings(4, 2);
    wanted.max_errors = "20";
    Prefetcher prefetcher(*device, source, wanted);
    const auto first = prefetcher.next(), second = prefetcher.next();  // items 4 to 7, two of them unreadable
    may_read_ahead = true;
    may_read_ahead.notify_all();
    ASSERT_TRUE(first && second);
    EXPECT_THAT(test::error_of([&] {
                    while (prefetcher.next()) {
                    }
                }),
                AllOf(HasSubstr("/fake/6: torn (and "), HasSubstr(" more like it). ")));
    const auto items_of = [](const std::vector<SkippedItem>& list) {
        std::uint64_t items = 0;
        for (const SkippedItem& item : list) items += 1 + item.similar;
        return items;
    };
    const auto skipped = prefetcher.skipped().list(), ahead = prefetcher.unreadable_upcoming();
    ASSERT_EQ(skipped.size(), 1U);
    EXPECT_EQ(skipped[0].origin, "/fake/6");
    EXPECT_EQ(items_of(skipped), prefetcher.progress().items_skipped);
    EXPECT_GE(items_of(skipped) + items_of(ahead), 21U) << "no finding is lost";
    if (ahead.empty()) return;  // all of it was delivered
    ASSERT_EQ(ahead.size(), 1U);
    EXPECT_GT(ahead[0].item, skipped[0].last_item) << "a read-ahead part";
    EXPECT_EQ(ahead[0].origin, "/fake/" + std::to_string(ahead[0].item));
}

TEST_F(PrefetcherTest, AnUnreadableInputFailsBeforeTheLastBatch) {
    FakeSource source(6, RowKind::Float32);
    source.on_load = [](std::uint64_t, std::span<std::byte>) { throw UnreadableItem("torn"); };
    Prefetcher prefetcher(*device, source, settings(4));
    std::uint64_t batches = 0;
    EXPECT_THAT(test::error_of(
                    [&] {
                        while (auto batch = prefetcher.next()) ++batches;
                    },
                    ErrorKind::BadInput),
                HasSubstr("none of the 6 items could be read: /fake/0: torn"));
    EXPECT_LE(batches, 1U);
    EXPECT_EQ(prefetcher.skipped().list().size(), prefetcher.progress().items_skipped);
}

TEST_F(PrefetcherTest, DeliversAnUnreadablePartToItsEnd) {
    FakeSource source(6, RowKind::Float32);
    source.on_load = [](std::uint64_t, std::span<std::byte>) { throw UnreadableItem("torn"); };
    auto wanted = settings(4);
    wanted.items_are = ErrorBudget::Of::Part;
    Prefetcher prefetcher(*device, source, wanted);
    while (const auto batch = prefetcher.next()) EXPECT_TRUE(batch->left_out());
    EXPECT_NO_THROW(prefetcher.require_good());
    EXPECT_EQ(prefetcher.progress().items_skipped, 6U);
}

TEST_F(PrefetcherTest, RefusesBadSettingsImmediately) {
    FakeSource pixels(6, RowKind::Pixels);
    EXPECT_THROW(Prefetcher(*device, pixels, settings(2)), ConfigError);
    FakeSource source(6, RowKind::Float32);
    PrefetchSettings wanted = settings(2);
    wanted.max_errors = "some";
    EXPECT_THROW(Prefetcher(*device, source, wanted), ConfigError);
    wanted = settings(2);
    wanted.input = features(2, kInt32);
    EXPECT_THROW(Prefetcher(*device, source, wanted), ConfigError);
}

TEST_F(PrefetcherTest, FinishingEarlyWakesTheWaiter) {
    FakeSource source(8, RowKind::Float32);
    Gate slow_disk;
    source.on_load = [&](std::uint64_t, std::span<std::byte>) { slow_disk.wait(); };
    StepClock clock;
    Prefetcher prefetcher(*device, source, settings(4), clock);
    std::thread model([&] { EXPECT_FALSE(prefetcher.next()); });
    yield_until([&] {
        clock.advance(std::chrono::seconds(1));
        return prefetcher.progress().next_blocked_seconds > 0;  // shown while the wait lasts
    });
    prefetcher.finish_early();
    model.join();
    slow_disk.open();
    prefetcher.stop();
    EXPECT_FALSE(prefetcher.next());
}

TEST_F(PrefetcherTest, ABatchInUseSurvivesAnEarlyFinish) {
    FakeSource source(80, RowKind::Float32);
    Prefetcher prefetcher(*device, source, settings(4));
    auto batch = prefetcher.next();
    prefetcher.finish_early();
    EXPECT_FALSE(prefetcher.next());
    EXPECT_EQ(contents(*batch, 1)[0], 1.0F);
    batch->release_after(*compute);
    EXPECT_EQ(prefetcher.progress().batches_delivered, 1U);
}

TEST_F(PrefetcherTest, StopsWithAllQueuesFull) {
    FakeSource source(800, RowKind::Float32);
    Prefetcher prefetcher(*device, source, settings(4, 3, 2));
    yield_until([&] { return source.loads == 2 * 3 * 4; });
    prefetcher.stop();
    EXPECT_EQ(source.loads, 2U * 3 * 4);
    prefetcher.stop();
}

TEST_F(PrefetcherTest, ABatchMayOutliveThePrefetcher) {
    FakeSource source(8, RowKind::Float32);
    auto prefetcher = std::make_unique<Prefetcher>(*device, source, settings(4));
    auto batch = prefetcher->next();
    prefetcher.reset();
    EXPECT_EQ(contents(*batch, 1)[0], 1.0F);
    batch->release_after(*compute);
}

TEST_F(PrefetcherTest, DeliversEveryItemOnceInItsPlace) {
    rc::check([&] {
        const auto items = *rc::gen::inRange<std::uint64_t>(0, 40);
        const auto batch_rows = *rc::gen::inRange<std::uint32_t>(1, 9);
        const auto unreadable = *rc::gen::container<std::set<std::uint64_t>>(rc::gen::inRange<std::uint64_t>(0, 40));
        FakeSource source(items, RowKind::Float32);
        source.on_load = [&](std::uint64_t item, std::span<std::byte> row) {
            if (unreadable.contains(item)) throw UnreadableItem("torn");
            FakeSource::fill(item, row);
        };
        std::uint64_t expected_empty = 0;
        for (std::uint64_t item = 0; item < items; ++item) expected_empty += unreadable.contains(item);
        RC_PRE(items == 0 || expected_empty < items);
        const PrefetchSettings wanted = settings(batch_rows, *rc::gen::inRange(1U, 5U), *rc::gen::inRange(0U, 4U));
        const auto is_left_out = [&](std::uint64_t number) {
            for (std::uint64_t i = number * batch_rows; i < std::min<std::uint64_t>(items, (number + 1) * batch_rows);
                 ++i)
                if (!unreadable.contains(i)) return false;
            return true;
        };
        Prefetcher prefetcher(*device, source, wanted);
        std::uint64_t item = 0, holes = 0, number = 0, computed = 0;
        while (auto batch = prefetcher.next()) {
            RC_ASSERT(batch->number() == number);
            const bool left_out = is_left_out(number++);
            RC_ASSERT(batch->left_out() == left_out);
            RC_ASSERT((batch->data() == nullptr) == left_out);
            const std::vector<float> values = left_out ? std::vector<float>(batch_rows * kRowFloats)
                                                       : contents(*batch, std::size_t{batch_rows} * kRowFloats);
            computed += left_out ? 0 : 1;
            for (std::size_t row = 0; row < batch->rows().size(); ++row, ++item) {
                const bool is_empty = unreadable.contains(item);
                holes += is_empty;
                RC_ASSERT(batch->rows()[row].item == item);
                RC_ASSERT(batch->rows()[row].empty == is_empty);
                RC_ASSERT(values[row * kRowFloats] == (is_empty ? 0.0F : static_cast<float>(item + 1)));
            }
            if (*rc::gen::arbitrary<bool>()) batch->release_after(*compute);
        }
        RC_ASSERT(prefetcher.progress().batches_delivered == computed);
        RC_ASSERT(item == items);
        RC_ASSERT(prefetcher.progress().items_delivered == items);
        RC_ASSERT(prefetcher.progress().items_skipped == expected_empty);
        RC_ASSERT(holes == expected_empty);
        RC_ASSERT(prefetcher.skipped().total() == expected_empty);
    });
}

ItemRanges done_items(std::initializer_list<ItemRange> list) {
    ItemRanges set;
    for (const ItemRange& range : list) set.add(range);
    return set;
}

TEST_F(PrefetcherTest, DoesNotLoadDoneItemsAndKeepsTheOthersPlaces) {
    FakeSource source(22, RowKind::Float32);
    auto with_done = settings(4);
    with_done.done = done_items({{0, 8}, {9, 11}, {12, 20}});
    Prefetcher prefetcher(*device, source, with_done);
    EXPECT_EQ(prefetcher.upcoming(), 2U);
    auto third = prefetcher.next();
    ASSERT_TRUE(third);
    EXPECT_EQ(third->number(), 2U);
    EXPECT_EQ(prefetcher.upcoming(), 5U);
    const std::vector<float> values = contents(*third, 4 * kRowFloats);
    for (std::size_t row = 0; row < 4; ++row) {
        const bool done = row == 1 || row == 2;
        EXPECT_EQ(third->rows()[row].item, 8 + row);
        EXPECT_EQ(third->rows()[row].empty, done);
        EXPECT_EQ(third->rows()[row].done, done);
        EXPECT_EQ(values[row * kRowFloats], done ? 0.0F : static_cast<float>(9 + row));
    }
    EXPECT_EQ(prefetcher.next()->number(), 5U);
    EXPECT_FALSE(prefetcher.upcoming());
    EXPECT_FALSE(prefetcher.next());
    EXPECT_EQ(source.loads, 4U);
    EXPECT_EQ(prefetcher.progress().items_delivered, 4U);
    EXPECT_EQ(prefetcher.progress().items_skipped, 0U);
}

TEST_F(PrefetcherTest, OmitsDoneItemsOfResidentBatches) {
    FakeSource source(10, RowKind::Nothing);
    auto with_done = settings(4);
    with_done.done = done_items({{0, 5}, {8, 10}});
    Prefetcher prefetcher(*device, source, with_done);
    auto batch = prefetcher.next();
    ASSERT_TRUE(batch);
    EXPECT_EQ(batch->number(), 1U);
    EXPECT_TRUE(batch->rows()[0].done);
    EXPECT_FALSE(batch->rows()[1].empty);
    EXPECT_FALSE(prefetcher.next());
    EXPECT_EQ(prefetcher.progress().items_delivered, 3U);
}

TEST_F(PrefetcherTest, RetriesUnreadableItemsWithoutUselessBatches) {
    FakeSource source(12, RowKind::Float32);
    source.unreadable = [](std::uint64_t item) { return item == 5; };
    auto with_done = settings(4);
    with_done.done = done_items({{0, 5}, {6, 8}});
    Prefetcher prefetcher(*device, source, with_done);
    EXPECT_EQ(prefetcher.upcoming(), 1U);
    auto next = prefetcher.next();
    ASSERT_TRUE(next);
    EXPECT_EQ(next->number(), 1U);
    EXPECT_TRUE(next->left_out());
    EXPECT_EQ(prefetcher.upcoming(), 2U);
    next = prefetcher.next();
    ASSERT_TRUE(next);
    EXPECT_EQ(next->number(), 2U);
    EXPECT_FALSE(next->left_out());
    EXPECT_FALSE(prefetcher.upcoming());
    EXPECT_FALSE(prefetcher.next());
    EXPECT_EQ(source.loads, 5U);
    EXPECT_EQ(prefetcher.progress().items_delivered, 5U);
    EXPECT_EQ(prefetcher.progress().items_skipped, 1U);
    EXPECT_EQ(prefetcher.skipped().total(), 1U);
}

TEST_F(PrefetcherTest, DeliversABatchOfDoneAndUnreadableItems) {
    FakeSource source(12, RowKind::Float32);
    source.unreadable = [](std::uint64_t item) { return item < 6; };
    auto wanted = settings(4);
    wanted.done = done_items({{6, 12}});
    Prefetcher prefetcher(*device, source, wanted);
    for (std::uint64_t number = 0; number < 2; ++number) {
        const auto batch = prefetcher.next();
        ASSERT_TRUE(batch);
        EXPECT_EQ(batch->number(), number);
        EXPECT_TRUE(batch->left_out());
        EXPECT_EQ(empty_rows(*batch), 4U);
    }
    EXPECT_FALSE(prefetcher.next());
    EXPECT_EQ(prefetcher.progress().items_skipped, 6U);
}

TEST_F(PrefetcherTest, SkipsItemsThatFailLater) {
    FakeSource source(6, RowKind::Float32);
    source.unreadable = [](std::uint64_t item) { return item == 0; };
    auto wanted = settings(3);
    wanted.max_errors = "2";
    Prefetcher prefetcher(*device, source, wanted);
    while (auto batch = prefetcher.next()) batch->release_after(*compute);
    EXPECT_FALSE(prefetcher.skip(4, "no number"));
    EXPECT_NO_THROW(prefetcher.require_good());
    EXPECT_TRUE(prefetcher.skip(2, "nothing"));
    const std::vector<SkippedItem> skipped = prefetcher.skipped().list();
    ASSERT_EQ(skipped.size(), 3U);
    EXPECT_EQ(skipped[1].origin, "/fake/2");
    EXPECT_EQ(skipped[2].reason, "no number");
    EXPECT_TRUE(prefetcher.unreadable_upcoming().empty());
    prefetcher.end_for_skipped();
    EXPECT_THAT(test::error_of([&] { prefetcher.require_good(); }, ErrorKind::BadInput),
                HasSubstr("3 of 6 items had to be skipped"));
    prefetcher.finish_early();
    EXPECT_NO_THROW(prefetcher.require_good()) << "it was asked to end";
}

TEST_F(PrefetcherTest, UploadsNothingWithEverythingDone) {
    FakeSource source(11, RowKind::Nothing);
    PrefetchSettings all = settings(4);
    all.input = {};
    all.done = done_items({{0, 11}});
    Prefetcher prefetcher(*device, source, all);
    EXPECT_FALSE(prefetcher.next());
    EXPECT_EQ(prefetcher.progress().items_delivered, 0U);
}

TEST_F(PrefetcherTest, ASuccessorContinuesTheCountOfUnreadableItems) {
    FakeSource source(11, RowKind::Float32);
    source.unreadable = [](std::uint64_t item) { return item == 8; };
    PrefetchSettings from_six = settings(4);
    from_six.done = done_items({{0, 6}});
    from_six.skipped_before = 2;
    Prefetcher prefetcher(*device, source, from_six);
    EXPECT_EQ(prefetcher.next()->number(), 1U);
    auto last = prefetcher.next();
    ASSERT_TRUE(last);
    EXPECT_TRUE(last->rows()[0].empty);
    EXPECT_FALSE(last->rows()[0].done) << "this item was unreadable";
    EXPECT_FALSE(prefetcher.next());
    EXPECT_EQ(source.loads, 5U);
    EXPECT_EQ(prefetcher.progress().items_delivered, 5U);
    EXPECT_EQ(prefetcher.progress().items_skipped, 1U);
    EXPECT_EQ(prefetcher.skipped().total(), 3U);
}

}  // namespace
}  // namespace offramp
