// A custom loop and custom consumers, over the C ABI and the C++ headers that are installed.

#include <gmock/gmock.h>
#include <sys/wait.h>

#include <array>
#include <atomic>
#include <fstream>
#include <limits>
#include <map>
#include <mutex>
#include <offramp/consumer.hpp>
#include <offramp/egress.hpp>
#include <set>
#include <thread>

#include "tests/contract/abi/abi_world.hpp"
#include "tests/support/pipe.hpp"

namespace offramp::test {
namespace {

using testing::ElementsAre;
using testing::Eq;
using testing::HasSubstr;

using RoundTrip = AbiWorld;

EgressOptions small_run(const std::string& run_dir) {
    return {.run_dir = run_dir,
            .tensors = {{"scores", float32, {4, 3}}, {"ids", uint8, {4, 2}}},
            .device = "cpu",
            .name = "made up"};
}

TEST_F(RoundTrip, EveryRowArrivesOnceWithItsKeyAndItsBytes) {
    constexpr std::uint64_t kBatches = 40;
    Egress egress(small_run(run_dir_));
    std::mutex mutex;
    std::map<std::string, std::vector<float>> scores;
    std::map<std::string, std::vector<std::uint8_t>> ids;
    const auto consume = [&] {
        Consumer consumer(run_dir_);
        EXPECT_TRUE(consumer.for_each([&](const Slab& slab) {
            EXPECT_STREQ(slab.raw().name, "made up");
            EXPECT_STREQ(slab.tensor(0).name, "scores");
            EXPECT_EQ(slab.tensors(), 2U);
            const std::lock_guard lock(mutex);
            for (std::uint32_t row = 0; row < slab.size(); ++row) {
                const auto numbers = slab.row<float>(row);
                const auto bytes = slab.row<std::uint8_t>(row, 1);
                EXPECT_TRUE(scores.emplace(slab.key(row), std::vector<float>(numbers.begin(), numbers.end())).second)
                    << "twice";
                ids.emplace(slab.key(row), std::vector<std::uint8_t>(bytes.begin(), bytes.end()));
                EXPECT_FALSE(slab.sample(row).empty);
            }
        }));
    };
    std::thread first(consume), second(consume);
    std::atomic<int> released{0};
    for (std::uint64_t number = 0; number < kBatches; ++number) {
        const std::uint32_t rows = number % 3 == 0 ? 2 : kRows;  // rows vary
        const auto made = std::shared_ptr<Batch>(new Batch(batch(number)), [&](Batch* gone) {
            std::ranges::fill(gone->scores, -1.0F);  // a late read would see nonsense
            ++released;
            delete gone;
        });
        std::vector<std::string> keys;
        for (std::uint32_t row = 0; row < rows; ++row)
            keys.push_back("b" + std::to_string(number) + "/r" + std::to_string(row));
        const std::vector<const void*> tensors{made->scores.data(), made->ids.data()};
        egress.submit(tensors, rows, nullptr, made, keys);
    }
    EXPECT_TRUE(egress.drain());
    first.join();
    second.join();
    EXPECT_EQ(released, static_cast<int>(kBatches));
    std::uint64_t rows = 0;
    for (std::uint64_t number = 0; number < kBatches; ++number)
        for (std::uint32_t row = 0; row < (number % 3 == 0 ? 2 : kRows); ++row, ++rows) {
            const std::string key = "b" + std::to_string(number) + "/r" + std::to_string(row);
            const Batch made = batch(number);
            EXPECT_THAT(scores[key],
                        ElementsAre(made.scores[row * 3], made.scores[row * 3 + 1], made.scores[row * 3 + 2]))
                << key;
            EXPECT_THAT(ids[key], ElementsAre(made.ids[row * 2], made.ids[row * 2 + 1])) << key;
        }
    EXPECT_EQ(scores.size(), rows);
    const offramp_egress_stats stats = egress.stats();
    EXPECT_EQ(stats.batches_submitted, kBatches);
    EXPECT_EQ(stats.samples_submitted, rows);
    EXPECT_EQ(stats.samples_completed, rows);
    EXPECT_EQ(stats.samples_dropped, 0U);
}

std::string metadata_of(const std::string& key) { return key.back() == '2' ? "" : R"({"of":")" + key + R"("})"; }

// Lists of samples and packed samples in turn, some of them empty, in slabs that hold few of them.
TEST_F(RoundTrip, SamplesOfDifferentShapesArriveWithTheirShapeAndBytes) {
    constexpr std::int64_t kWidth = 3;
    constexpr std::uint64_t kBatches = 60;
    EgressOptions options{.run_dir = run_dir_,
                          .tensors = {{"tokens", float32, {4, OFFRAMP_VARIABLE, kWidth}}, {"ids", uint8, {4, 2}}},
                          .device = "cpu"};
    options.slab_bytes = 1024;
    options.metadata_bytes = 32;
    Egress egress(options);
    std::map<std::string, std::vector<float>> tokens;
    std::map<std::string, std::vector<std::uint8_t>> ids;
    std::thread consumer([&] {
        EXPECT_TRUE(Consumer(run_dir_).for_each([&](const Slab& slab) {
            EXPECT_EQ(slab.tensor(0).shape[1], OFFRAMP_VARIABLE);
            EXPECT_EQ(slab.tensor(1).rows, nullptr);
            for (std::uint32_t row = 0; row < slab.size(); ++row) {
                const auto numbers = slab.row<float>(row);
                EXPECT_THAT(slab.shape(row), ElementsAre(std::ssize(numbers) / kWidth, kWidth));
                EXPECT_THAT(slab.shape(row, 1), ElementsAre(2));
                EXPECT_EQ(slab.metadata(row), metadata_of(std::string(slab.key(row))));
                EXPECT_TRUE(tokens.emplace(slab.key(row), std::vector<float>(numbers.begin(), numbers.end())).second);
                const auto bytes = slab.row<std::uint8_t>(row, 1);
                ids.emplace(slab.key(row), std::vector<std::uint8_t>(bytes.begin(), bytes.end()));
            }
        }));
    });
    std::map<std::string, std::vector<float>> submitted;
    for (std::uint64_t number = 0; number < kBatches; ++number) {
        struct Made {
            std::vector<std::vector<float>> samples;
            std::vector<float> packed;
            std::vector<std::uint8_t> ids;
        };
        const auto made = std::make_shared<Made>();
        const auto rows = static_cast<std::uint32_t>(number % 5 + 1);
        std::vector<std::string> keys, metadata;
        std::vector<std::int64_t> lengths;
        std::vector<const void*> addresses;
        for (std::uint32_t row = 0; row < rows; ++row) {
            lengths.push_back(static_cast<std::int64_t>((number * 7 + row * 5) % 12));
            auto& sample = made->samples.emplace_back(lengths.back() * kWidth, static_cast<float>(number + row));
            made->packed.insert(made->packed.end(), sample.begin(), sample.end());
            made->ids.insert(made->ids.end(), {static_cast<std::uint8_t>(number), static_cast<std::uint8_t>(row)});
            addresses.push_back(sample.data());
            keys.push_back(std::to_string(number) + "/" + std::to_string(row));
            metadata.push_back(metadata_of(keys.back()));
            submitted[keys.back()] = sample;
        }
        const BatchTensor of_tokens =
            number % 2 == 0 ? BatchTensor(addresses, lengths) : BatchTensor(made->packed.data(), lengths);
        egress.submit({of_tokens, made->ids.data()}, rows, nullptr, made, keys, {}, metadata);
    }
    EXPECT_TRUE(egress.drain());
    consumer.join();
    EXPECT_EQ(tokens, submitted);
    EXPECT_EQ(ids.size(), submitted.size());
    EXPECT_THAT(ids["7/2"], ElementsAre(7, 2));
}

TEST_F(RoundTrip, SamplesOfDifferentShapesAreRefusedByName) {
    EgressOptions options{
        .run_dir = run_dir_, .tensors = {{"tokens", float32, {4, OFFRAMP_VARIABLE, 3}}}, .device = "cpu"};
    options.slab_bytes = 1024;
    const std::vector<float> numbers(4096);
    Egress egress(options);
    const auto refusal = [&](const BatchTensor& tensor, std::uint32_t rows) -> std::string {
        try {
            egress.submit({tensor}, rows);
            return "taken";
        } catch (const Error& error) {
            return error.what();
        }
    };
    EXPECT_THAT(refusal(numbers.data(), 1), HasSubstr("'tokens' has no extents"));
    EXPECT_THAT(refusal({numbers.data(), {4, -1}}, 2), HasSubstr("sample 1 of tensor 'tokens' has the extent -1"));
    EXPECT_THAT(refusal({numbers.data(), {4, 100}}, 2),
                HasSubstr("sample 1 has 1216 bytes, and a slab has room for "
                          "1024. Open the run with slab_bytes for the largest sample, at least 1216"));
    EXPECT_THAT(refusal({numbers.data(), {std::int64_t{1} << 60}}, 1), HasSubstr("is too large"));
    EXPECT_THAT(refusal({numbers.data(), {4, 5, 6, 7}}, 2), HasSubstr("4 extents for 2 samples"));
    EXPECT_THAT(refusal({numbers.data(), {4, 5, 6}}, 2), HasSubstr("3 extents for 2 samples"));
    EXPECT_THAT(refusal({std::vector<const void*>{numbers.data()}, {4, 5}}, 2), HasSubstr("1 addresses for 2 samples"));
    EXPECT_THAT(refusal({std::vector<const void*>{nullptr, nullptr}, {0, 5}}, 2),
                HasSubstr("the address of sample 1 of tensor 'tokens' is null"));
    EXPECT_EQ(egress.stats().batches_submitted, 0U);
    EXPECT_EQ(refusal({std::vector<const void*>{nullptr}, {0}}, 1), "taken");
}

// Each of them would otherwise read beyond an array, or what no consumer accepts.
TEST_F(RoundTrip, ExtentsThatDoNotFitTheRunAreRefused) {
    const std::vector<float> numbers(4096);
    Egress egress({.run_dir = run_dir_,
                   .tensors = {{"grid", float32, {4, OFFRAMP_VARIABLE, OFFRAMP_VARIABLE}}, {"ids", uint8, {4, 2}}},
                   .device = "cpu"});
    const auto refusal = [&](const BatchTensor& grid, const BatchTensor& ids) -> std::string {
        try {
            egress.submit({grid, ids}, 2);
            return "taken";
        } catch (const Error& error) {
            return error.what();
        }
    };
    const BatchTensor ids = numbers.data(), grid(numbers.data(), {4, 5, 6, 7});
    EXPECT_THAT(refusal({numbers.data(), {4, 5}}, ids), HasSubstr("2 extents for 2 samples"));
    EXPECT_THAT(refusal({numbers.data(), {0, std::int64_t{1} << 50, 1, 1}}, ids), HasSubstr("is too large"));
    EXPECT_THAT(refusal(grid, {numbers.data(), {1, 2}}), HasSubstr("2 extents for 2 samples"));
    EXPECT_THAT(refusal(grid, {std::vector<const void*>{numbers.data(), numbers.data()}, {}}),
                HasSubstr("tensor 'ids' has extents or addresses, and the run was opened for samples of one shape"));
    EXPECT_EQ(refusal(grid, ids), "taken");
}

TEST_F(RoundTrip, MetadataThatIsNoSmallObjectIsRefused) {
    const Batch made = batch(0);
    EgressOptions options = small_run(run_dir_);
    options.metadata_bytes = 20;
    Egress egress(options);
    const auto refusal = [&](const std::vector<std::string>& metadata) -> std::string {
        try {
            egress.submit({made.scores.data(), made.ids.data()}, 2, nullptr, nullptr, {}, {}, metadata);
            return "taken";
        } catch (const Error& error) {
            return error.what();
        }
    };
    EXPECT_THAT(refusal({"{}"}), HasSubstr("1 metadata objects for 2 samples"));
    EXPECT_THAT(refusal({"{}", "[1]"}), HasSubstr("the metadata of sample 1 is not a JSON object: '[1]'"));
    EXPECT_THAT(refusal({"{\"a\": \xff}", "{}"}), HasSubstr("the metadata of sample 0 is not a JSON object"));
    EXPECT_THAT(refusal({"", R"({"text": "0123456789"})"}),
                HasSubstr("the metadata of sample 1 has 22 bytes as JSON, and the run was opened for 20. Open it with "
                          "metadata_bytes for the largest, at least 22"));
    EXPECT_EQ(egress.stats().batches_submitted, 0U);
    EXPECT_EQ(refusal({"", R"({"text": "01234567"})"}), "taken");
}

TEST_F(RoundTrip, AConsumerThatDoesNotTakeDifferentShapesIsTold) {
    const std::vector<float> numbers(4);
    Egress egress({.run_dir = run_dir_, .tensors = {{"tokens", float32, {4, OFFRAMP_VARIABLE}}}, .device = "cpu"});
    egress.submit({BatchTensor(numbers.data(), {4})}, 1);
    try {
        Consumer({.run_dir = run_dir_, .takes_variable = false}).for_each([](const Slab&) { FAIL() << "passed on"; });
        FAIL() << "no error";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), OFFRAMP_BAD_ARGUMENT);
        EXPECT_THAT(error.what(), HasSubstr("set takes_variable in offramp_consumer_options"));
    }
    std::thread consumer(
        [&] { Consumer(run_dir_).for_each([](const Slab& slab) { EXPECT_THAT(slab.shape(0), ElementsAre(4)); }); });
    EXPECT_TRUE(egress.drain());
    consumer.join();
    EXPECT_EQ(egress.stats().samples_completed, 1U);
    EXPECT_EQ(egress.stats().samples_dead_lettered, 0U);
}

TEST_F(RoundTrip, ItemNumbersReplaceMissingKeys) {
    Egress egress(small_run(run_dir_));
    std::set<std::string> keys;
    std::thread consumer([&] {
        Consumer(run_dir_).for_each([&](const Slab& slab) {
            for (std::uint32_t row = 0; row < slab.size(); ++row) keys.emplace(slab.key(row));
        });
    });
    const Batch made = batch(0);
    egress.submit({made.scores.data(), made.ids.data()}, 2);
    egress.submit({made.scores.data(), made.ids.data()}, 2, nullptr, nullptr, {}, {70, 90});
    egress.submit({made.scores.data(), made.ids.data()}, 1);
    EXPECT_TRUE(egress.drain());
    consumer.join();
    EXPECT_THAT(keys, ElementsAre("0", "1", "70", "90", "91"));
}

TEST_F(RoundTrip, RefusesItemsBeyondTheLastNumber) {
    const Batch made = batch(0);  // outlives the egress, which copies from it until it is closed
    Egress egress(small_run(run_dir_));
    constexpr std::uint64_t kLast = std::numeric_limits<std::uint64_t>::max() - 1;
    egress.submit({made.scores.data(), made.ids.data()}, 2, nullptr, nullptr, {}, {0, kLast});
    EXPECT_THROW(egress.submit({made.scores.data(), made.ids.data()}, 1), Error);
    EXPECT_THROW(egress.submit({made.scores.data(), made.ids.data()}, 1, nullptr, nullptr, {}, {kLast + 1}), Error);
    EXPECT_EQ(egress.stats().batches_submitted, 1U);
}

// Item 70 is dead-lettered, so that it does not count as done.
TEST_F(RoundTrip, ReportsEachCompletedItemOnce) {
    EgressOptions options = small_run(run_dir_);
    options.report_completed = true;
    options.samples_per_slab = 1;
    Egress egress(options);
    EXPECT_TRUE(egress.take_completed().empty());
    std::thread consumer([&] {
        Consumer(run_dir_).for_each([&](const Slab& slab) {
            if (slab.sample(0).item == 70) throw Rejected("not this one");
        });
    });
    const Batch made = batch(0);
    egress.submit({made.scores.data(), made.ids.data()}, 4);
    std::vector<std::pair<std::uint64_t, std::uint64_t>> completed;
    const auto collect = [&] {
        const auto more = egress.take_completed(std::chrono::seconds(60));
        EXPECT_FALSE(more.empty());
        for (const offramp_items& range : more)
            for (std::uint64_t item = range.begin; item < range.end; ++item) completed.emplace_back(item, item + 1);
    };
    while (completed.size() < 4) collect();
    egress.submit({made.scores.data(), made.ids.data()}, 3, nullptr, nullptr, {}, {70, 90, 91});
    EXPECT_TRUE(egress.drain());
    consumer.join();
    collect();
    std::ranges::sort(completed);
    EXPECT_THAT(completed, ElementsAre(std::pair(0, 1), std::pair(1, 2), std::pair(2, 3), std::pair(3, 4),
                                       std::pair(90, 91), std::pair(91, 92)));
    EXPECT_TRUE(egress.take_completed().empty());
}

// One slab is done, one is dead-lettered, and one is dropped because both slabs of the pool are taken.
TEST_F(RoundTrip, ReportsEachFailedItemOnce) {
    EgressOptions options = small_run(run_dir_);
    options.report_failed = true;
    options.drop_when_full = true;
    options.samples_per_slab = 4;
    options.slabs = 2;
    Egress egress(options);
    const Batch made = batch(0);
    for (const std::uint64_t first : {10U, 20U, 30U})
        egress.submit({made.scores.data(), made.ids.data()}, 4, nullptr, nullptr, {},
                      {first, first + 1, first + 2, first + 3});
    const auto dropped = egress.take_failed(std::chrono::seconds(60));
    std::thread consumer([&] {
        Consumer(run_dir_).for_each([&](const Slab& slab) {
            if (slab.sample(0).item == 20) throw Rejected("not this one");
        });
    });
    EXPECT_TRUE(egress.drain());
    consumer.join();
    const auto dead_letters = egress.take_failed();
    ASSERT_EQ(dropped.size(), 1U);
    EXPECT_THAT(std::pair(dropped[0].begin, dropped[0].end), Eq(std::pair<std::uint64_t, std::uint64_t>(30, 34)));
    ASSERT_EQ(dead_letters.size(), 1U);
    EXPECT_THAT(std::pair(dead_letters[0].begin, dead_letters[0].end),
                Eq(std::pair<std::uint64_t, std::uint64_t>(20, 24)));
    EXPECT_TRUE(egress.take_failed().empty());
}

TEST_F(RoundTrip, AcceptsAllKeysInOneText) {
    offramp_egress* egress = nullptr;
    const std::array<std::int64_t, 2> shape{4, 3};
    const offramp_tensor tensor{.size = sizeof tensor,
                                .name = "scores",
                                .dtype = {2, 32, 1},
                                .dims = 2,
                                .shape = shape.data(),
                                .strides = nullptr,
                                .data = nullptr};
    offramp_egress_options options{};
    options.size = sizeof options;
    options.run_dir = run_dir_.c_str();
    options.tensors = &tensor;
    options.tensor_count = 1;
    options.device = "cpu";
    ASSERT_EQ(offramp_egress_open(&options, &egress, nullptr), OFFRAMP_OK);
    const std::array<float, 12> scores{};
    const void* const data = scores.data();
    offramp_batch batch{};
    batch.size = sizeof batch;
    batch.tensors = &data;
    batch.tensor_count = 1;
    batch.rows = 3;
    const auto submitted = [&](std::string_view text) {
        batch.key_text = text.data();
        batch.key_text_bytes = text.size();
        return offramp_egress_submit(egress, &batch, nullptr);
    };
    using namespace std::string_view_literals;
    for (const std::string_view text :
         {""sv, "a\0b\0"sv, "a\0b\0c"sv, "a\0b\0c\0d\0"sv, "a\0\0c\0"sv, "a\0\xff\0c\0"sv})
        EXPECT_EQ(submitted(text), OFFRAMP_BAD_ARGUMENT) << text.size();
    const char* const pointers[] = {"a", "b", "c"};
    batch.keys = pointers;
    EXPECT_EQ(submitted("a\0b\0c\0"sv), OFFRAMP_BAD_ARGUMENT) << "both";
    batch.keys = nullptr;
    EXPECT_EQ(submitted("a\0b\0c\0"sv), OFFRAMP_OK);
    std::set<std::string> keys;
    std::thread consumer([&] {
        Consumer(run_dir_).for_each([&](const Slab& slab) {
            for (std::uint32_t row = 0; row < slab.size(); ++row) keys.emplace(slab.key(row));
        });
    });
    EXPECT_EQ(offramp_egress_drain(egress, -1, nullptr), OFFRAMP_OK);
    consumer.join();
    EXPECT_THAT(keys, ElementsAre("a", "b", "c"));
    EXPECT_EQ(offramp_egress_close(egress, nullptr), OFFRAMP_OK);
}

TEST_F(RoundTrip, ADeadConsumersSlabGoesToAnother) {
    // Forked before the run has threads: a child's allocation could wait for a lock that one of them held.
    Pipe begun;
    const pid_t child = ::fork();
    if (child == 0) {
        begun.close_write_end();
        begun.wait();
        offramp_consumer_options options{};
        options.size = sizeof options;
        options.run_dir = run_dir_.c_str();
        offramp_consumer* consumer = nullptr;
        if (offramp_consumer_open(&options, &consumer, nullptr) != OFFRAMP_OK) ::_exit(1);
        offramp_consumer_run(
            consumer, [](void*, const offramp_slab*) -> std::int32_t { ::_exit(7); }, nullptr, nullptr);
        ::_exit(2);
    }
    Egress egress(small_run(run_dir_));
    const Batch made = batch(0);
    egress.submit({made.scores.data(), made.ids.data()}, kRows);
    begun.notify();
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    ASSERT_EQ(WEXITSTATUS(status), 7) << "it died in its first slab";
    EXPECT_FALSE(egress.drain(std::chrono::duration<double>(0.05))) << "no consumer is left";
    std::uint32_t rows = 0;
    std::thread consumer([&] { Consumer(run_dir_).for_each([&](const Slab& slab) { rows += slab.size(); }); });
    EXPECT_TRUE(egress.drain());
    consumer.join();
    EXPECT_EQ(rows, kRows);
    EXPECT_EQ(egress.stats().samples_completed, kRows);
}

TEST_F(RoundTrip, PassesExceptionsOnAndRetryReturnsTheSlab) {
    Egress egress(small_run(run_dir_));
    const Batch made = batch(0);
    egress.submit({made.scores.data(), made.ids.data()}, kRows);
    Consumer later(run_dir_);
    try {
        later.for_each([](const Slab&) { throw Retry("away"); });
        FAIL();
    } catch (const Error& problem) {
        EXPECT_EQ(problem.code(), OFFRAMP_RETRY);
    }
    std::uint32_t rows = 0;
    std::thread consumer([&] { Consumer(run_dir_).for_each([&](const Slab& slab) { rows += slab.size(); }); });
    EXPECT_TRUE(egress.drain());
    consumer.join();
    EXPECT_EQ(rows, kRows);
    const std::string other = folder_ + "/other";
    Egress another(small_run(other));
    another.submit({made.scores.data(), made.ids.data()}, kRows);
    Consumer broken(other);
    EXPECT_THROW(broken.for_each([](const Slab&) { throw std::domain_error("mine"); }), std::domain_error);
}

TEST_F(RoundTrip, AFailureIsChargedAndTheConsumerContinues) {
    EgressOptions options = small_run(run_dir_);
    options.samples_per_slab = kRows;
    Egress egress(options);
    const Batch made = batch(0);
    for (int i = 0; i < 3; ++i) egress.submit({made.scores.data(), made.ids.data()}, kRows);
    std::map<std::string, int> calls;
    std::uint32_t done = 0;
    std::thread consumer([&] {
        EXPECT_TRUE(Consumer(run_dir_).for_each([&](const Slab& slab) {
            const std::string key(slab.key(0));
            ++calls[key];
            if (key == "0") throw Failed("a traceback\nof two lines");
            if (key == std::to_string(kRows)) throw Rejected("no picture");
            done += slab.size();
        }));
    });
    EXPECT_TRUE(egress.drain());
    consumer.join();
    EXPECT_EQ(done, kRows);
    EXPECT_EQ(calls["0"], 3) << "the maximum of failures";
    EXPECT_EQ(calls[std::to_string(kRows)], 1) << "dead-lettered without a retry";
    EXPECT_EQ(egress.stats().samples_dead_lettered, 2 * kRows);
}

TEST_F(RoundTrip, ChargesAnExceptionWhileTheProcessLives) {
    Egress egress(small_run(run_dir_));
    const Batch made = batch(0);
    egress.submit({made.scores.data(), made.ids.data()}, kRows);
    for (int i = 0; i < 3; ++i) {
        Consumer broken(run_dir_);
        EXPECT_THROW(broken.for_each([](const Slab&) { throw std::domain_error("mine"); }), std::domain_error);
    }
    EXPECT_TRUE(egress.drain()) << "three failures make it a dead letter";
    EXPECT_EQ(egress.stats().samples_dead_lettered, kRows);
}

TEST_F(RoundTrip, AConsumerTakesTheOptionsOfTheAbi) {
    EXPECT_THROW(Consumer({.run_dir = run_dir_, .wait_for_run_seconds = -1}), Error);
    EXPECT_THROW(Consumer(run_dir_, 0.01).for_each([](const Slab&) {}), Error) << "there is no run";
    Egress egress(small_run(run_dir_));
    const Batch made = batch(0);
    egress.submit({made.scores.data(), made.ids.data()}, kRows);
    std::uint32_t rows = 0;
    std::thread consumer([&] {
        Consumer({.run_dir = run_dir_, .window = 1, .wait_for_run_seconds = 60}).for_each([&](const Slab& slab) {
            rows += slab.size();
        });
    });
    EXPECT_TRUE(egress.drain());
    consumer.join();
    EXPECT_EQ(rows, kRows);
}

TEST_F(RoundTrip, ResolvesARelativeRunDirectoryWhenOpened) {
    const std::filesystem::path before = std::filesystem::current_path();
    std::filesystem::current_path(folder_);
    Egress egress(small_run("run"));
    Consumer consumer("run");
    std::filesystem::current_path(before);
    const Batch made = batch(0);
    egress.submit({made.scores.data(), made.ids.data()}, kRows);
    std::uint32_t rows = 0;
    std::thread consuming([&] { consumer.for_each([&](const Slab& slab) { rows += slab.size(); }); });
    EXPECT_TRUE(egress.drain());
    consuming.join();
    EXPECT_EQ(rows, kRows);
    EXPECT_TRUE(std::filesystem::exists(run_dir_ + "/status.json"));
}

TEST_F(RoundTrip, StopEndsAConsumerInOrder) {
    Egress egress(small_run(run_dir_));
    Consumer consumer(run_dir_);
    std::thread stopper([&] {
        while (egress.stats().consumers == 0) std::this_thread::yield();
        consumer.stop();
    });
    EXPECT_FALSE(consumer.for_each([](const Slab&) {}));
    stopper.join();
}

class Releases : public AbiWorld {
  protected:
    static constexpr std::uint64_t kBatches = 50;

    void open(bool drop) {
        options_.drop_when_full = drop ? 1 : 0;
        options_.slabs = 2;
        options_.samples_per_slab = kRows;
        ASSERT_EQ(offramp_egress_open(&options_, &egress_, &error_), OFFRAMP_OK) << error_.text;
        addresses_ = {made_.scores.data(), made_.ids.data()};
        batch_.size = sizeof batch_;
        batch_.tensors = addresses_.data();
        batch_.tensor_count = 2;
        batch_.rows = kRows;
    }
    std::uint64_t released(std::uint64_t seen, std::int32_t expected = OFFRAMP_OK, double seconds = 60) {
        std::uint64_t count = 0;
        EXPECT_EQ(offramp_egress_wait_released(egress_, seen, seconds, &count, &error_), expected) << error_.text;
        return count;
    }
    void TearDown() override {
        EXPECT_EQ(offramp_egress_close(egress_, &error_), OFFRAMP_OK) << error_.text;
        AbiWorld::TearDown();
    }

    const Batch made_ = batch(0);
    std::array<const void*, 2> addresses_{};
    offramp_batch batch_{};
    offramp_egress* egress_ = nullptr;
};

TEST_F(Releases, AreCountedFromTheFirstBatch) {
    open(false);
    std::thread consumer([&] { Consumer(run_dir_).for_each([](const Slab&) {}); });
    std::atomic<std::uint64_t> released_owners{0};
    std::thread watcher([&] {
        for (std::uint64_t seen = 0; seen < kBatches;) {
            const std::uint64_t now = released(seen);
            EXPECT_GT(now, seen);
            seen = now;
            EXPECT_GE(released_owners, (now + 1) / 2) << "`release` is called before the count rises";
        }
    });
    batch_.owner = &released_owners;
    for (std::uint64_t number = 0; number < kBatches; ++number) {
        if (number % 2 == 1) batch_.release = nullptr;
        if (number % 2 == 0) batch_.release = [](void* owner) { ++*static_cast<std::atomic<std::uint64_t>*>(owner); };
        EXPECT_EQ(offramp_egress_submit(egress_, &batch_, &error_), OFFRAMP_OK) << error_.text;
    }
    watcher.join();
    EXPECT_EQ(released_owners, kBatches / 2);
    EXPECT_EQ(released(kBatches, OFFRAMP_TIMEOUT, 0), kBatches);
    EXPECT_EQ(offramp_egress_drain(egress_, 60, &error_), OFFRAMP_OK) << error_.text;
    consumer.join();
}

// Dropped batches overtake the two that were copied and those that wait.
TEST_F(Releases, AreCountedInOrderWhenBatchesAreDropped) {
    open(true);
    for (std::uint64_t number = 0; number < kBatches; ++number)
        EXPECT_EQ(offramp_egress_submit(egress_, &batch_, &error_), OFFRAMP_OK) << error_.text;
    std::uint64_t seen = 0;
    while (seen < kBatches) seen = released(seen);
    EXPECT_EQ(seen, kBatches);
}

TEST_F(Releases, ABatchThatFindsNoSlabInTimeIsRefused) {
    open(false);
    batch_.timeout_seconds = 0.01;
    std::uint64_t taken = 0;
    std::int32_t code = OFFRAMP_OK;
    while ((code = offramp_egress_submit(egress_, &batch_, &error_)) == OFFRAMP_OK) ++taken;
    EXPECT_EQ(code, OFFRAMP_TIMEOUT);
    EXPECT_THAT(error_.text, testing::HasSubstr("Submit the batch again"));
    EXPECT_GE(taken, 2U);
    offramp_egress_stats stats{};
    stats.size = sizeof stats;
    EXPECT_EQ(offramp_egress_get_stats(egress_, &stats, &error_), OFFRAMP_OK);
    EXPECT_EQ(stats.batches_submitted, taken);
    std::set<std::string> keys;
    std::thread consumer([&] {
        Consumer(run_dir_).for_each([&](const Slab& slab) {
            for (std::uint32_t row = 0; row < slab.size(); ++row) keys.emplace(slab.key(row));
        });
    });
    while ((code = offramp_egress_submit(egress_, &batch_, &error_)) == OFFRAMP_TIMEOUT) continue;
    EXPECT_EQ(code, OFFRAMP_OK) << error_.text;
    EXPECT_EQ(offramp_egress_drain(egress_, 60, &error_), OFFRAMP_OK) << error_.text;
    consumer.join();
    EXPECT_EQ(keys.size(), (taken + 1) * kRows) << "numbers continue without a gap";
    EXPECT_TRUE(keys.contains(std::to_string((taken + 1) * kRows - 1)));
    EXPECT_EQ(released(taken), taken + 1);
}

// The copies of the first two are done, and the third waits for a slab.
TEST_F(Releases, CanBeAwaitedDuringASubmit) {
    open(false);
    std::thread submitter([&] {
        for (std::uint64_t number = 0; number < kBatches; ++number)
            EXPECT_EQ(offramp_egress_submit(egress_, &batch_, nullptr), OFFRAMP_OK);
    });
    EXPECT_GE(released(0), 1U);
    EXPECT_GE(released(1), 2U);
    Consumer consumer(run_dir_);
    std::thread consuming([&] { consumer.for_each([](const Slab&) {}); });
    submitter.join();
    EXPECT_EQ(offramp_egress_drain(egress_, 60, &error_), OFFRAMP_OK) << error_.text;
    consuming.join();
    EXPECT_EQ(released(kBatches - 1, OFFRAMP_OK, 0), kBatches);
}

// The copies of the first two are done, and the third waits for a slab.
TEST_F(Releases, AreReportedToTheSubmitterAndToAnIdleThread) {
    open(false);
    for (int i = 0; i < 2; ++i) EXPECT_EQ(offramp_egress_submit(egress_, &batch_, &error_), OFFRAMP_OK) << error_.text;
    std::uint64_t count = 0;
    EXPECT_EQ(offramp_egress_wait_unattended(egress_, 1, 1e-3, 60, &count, &error_), OFFRAMP_OK) << error_.text;
    EXPECT_EQ(count, 2U);
    std::uint64_t reported = 77;
    batch_.released = &reported;
    EXPECT_EQ(offramp_egress_submit(egress_, &batch_, &error_), OFFRAMP_OK) << error_.text;
    EXPECT_EQ(reported, 2U);
    EXPECT_EQ(offramp_egress_wait_unattended(egress_, 2, 1e-3, 1e-3, &count, &error_), OFFRAMP_TIMEOUT);
    EXPECT_EQ(count, 2U);
    std::thread submitter([&] {
        for (std::uint64_t number = 3; number < kBatches; ++number) {
            EXPECT_EQ(offramp_egress_submit(egress_, &batch_, nullptr), OFFRAMP_OK);
            EXPECT_LE(reported, number);
        }
    });
    Consumer consumer(run_dir_);
    std::thread consuming([&] { consumer.for_each([](const Slab&) {}); });
    EXPECT_EQ(offramp_egress_wait_unattended(egress_, kBatches - 1, 1e-3, -1, &count, &error_), OFFRAMP_OK);
    EXPECT_EQ(count, kBatches);
    submitter.join();
    EXPECT_EQ(offramp_egress_drain(egress_, 60, &error_), OFFRAMP_OK) << error_.text;
    consuming.join();
}

TEST_F(Releases, EndWaitsEndsOnlyTheUnattendedWaits) {
    open(false);
    std::thread waiter([&] {
        std::uint64_t count = 77;
        EXPECT_EQ(offramp_egress_wait_unattended(egress_, 0, 0, -1, &count, nullptr), OFFRAMP_STOPPED);
        EXPECT_EQ(count, 77U);
    });
    EXPECT_EQ(offramp_egress_end_waits(egress_, &error_), OFFRAMP_OK) << error_.text;
    waiter.join();
    std::uint64_t count = 0;
    EXPECT_EQ(offramp_egress_submit(egress_, &batch_, &error_), OFFRAMP_OK) << error_.text;
    EXPECT_EQ(offramp_egress_wait_unattended(egress_, 0, 0, -1, &count, &error_), OFFRAMP_STOPPED);
    EXPECT_THAT(error_.text, testing::HasSubstr("Close the egress"));
    EXPECT_EQ(released(0), 1U) << "other waits go on";
}

TEST_F(RoundTrip, DropsBatchesWithoutASlabWhenAsked) {
    EgressOptions options = small_run(run_dir_);
    options.drop_when_full = true;
    options.slabs = 2;
    options.samples_per_slab = 4;
    Egress egress(options);
    const Batch made = batch(0);
    for (int i = 0; i < 50; ++i) egress.submit({made.scores.data(), made.ids.data()}, kRows);
    std::uint64_t rows = 0;
    std::thread consumer([&] { Consumer(run_dir_).for_each([&](const Slab& slab) { rows += slab.size(); }); });
    EXPECT_TRUE(egress.drain());
    consumer.join();
    const offramp_egress_stats stats = egress.stats();
    EXPECT_GT(stats.samples_dropped, 0U);
    EXPECT_EQ(stats.samples_dropped + stats.samples_completed, 50U * kRows);
    EXPECT_EQ(rows, stats.samples_completed);
}

// The pool has two slabs: when a batch is published, at most one other waits.
TEST_F(RoundTrip, DropsTheOldestWaitingBatchWhenAsked) {
    EgressOptions options = small_run(run_dir_);
    options.drop_when_full = OFFRAMP_DROP_OLDEST;
    options.report_failed = true;
    options.slabs = 2;
    options.samples_per_slab = 4;
    Egress egress(options);
    const Batch made = batch(0);
    for (int i = 0; i < 50; ++i) egress.submit({made.scores.data(), made.ids.data()}, 4);
    while (egress.stats().samples_dropped < 48U * 4) std::this_thread::yield();
    std::vector<std::uint64_t> items;
    std::thread consumer([&] {
        Consumer(run_dir_).for_each([&](const Slab& slab) {
            for (std::uint32_t row = 0; row < slab.size(); ++row) items.push_back(slab.sample(row).item);
        });
    });
    EXPECT_TRUE(egress.drain());
    consumer.join();
    EXPECT_THAT(items, ElementsAre(192, 193, 194, 195, 196, 197, 198, 199));
    const offramp_egress_stats stats = egress.stats();
    EXPECT_EQ(stats.samples_dropped, 48U * 4);
    EXPECT_EQ(stats.samples_completed, 2U * 4);
    std::uint64_t failed = 0;
    for (const offramp_items& range : egress.take_failed()) failed += range.end - range.begin;
    EXPECT_EQ(failed, 48U * 4);
}

TEST_F(RoundTrip, RefusesABatchOfMorePartsThanSlabsIfItDrops) {
    std::vector<std::uint8_t> samples(5);
    std::vector<std::int64_t> extents(5, 1);
    for (const bool varies : {false, true}) {
        EgressOptions options{.run_dir = run_dir_ + (varies ? "-varying" : ""),
                              .tensors = {{"t", uint8, {4, varies ? OFFRAMP_VARIABLE : 1}}},
                              .device = "cpu"};
        options.drop_when_full = varies ? OFFRAMP_DROP_NEWEST : OFFRAMP_DROP_OLDEST;
        options.slabs = 2;
        options.samples_per_slab = 2;
        options.slab_bytes = varies ? 128 : 0;  // two samples
        Egress egress(options);
        const auto submit = [&](std::uint32_t rows) {
            const BatchTensor tensor(samples.data(), varies ? std::vector(extents.begin(), extents.begin() + rows)
                                                            : std::vector<std::int64_t>{});
            egress.submit({tensor}, rows);
        };
        submit(4);
        try {
            submit(5);
            ADD_FAILURE();
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), OFFRAMP_BAD_ARGUMENT);
            EXPECT_THAT(error.what(), HasSubstr("a batch of 5 samples fills 3 slabs, and the run has 2"));
        }
    }
}

}  // namespace
}  // namespace offramp::test
