// Each argument of the C ABI null, too small, too large, out of order, after the end, from a child: the call returns a
// code and a text, never crashes, and leaves an open run undisturbed.

#include <gmock/gmock.h>
#include <sys/wait.h>

#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <set>
#include <thread>

#include "tests/contract/abi/abi_world.hpp"

namespace offramp::test {
namespace {

using testing::HasSubstr;

class Arguments : public AbiWorld {
  protected:
    void SetUp() override {
        AbiWorld::SetUp();
        ASSERT_EQ(offramp_egress_open(&options_, &egress_, &error_), OFFRAMP_OK) << error_.text;
        made_ = AbiWorld::batch(0);
        addresses_[0] = made_.scores.data();
        addresses_[1] = made_.ids.data();
        good_.size = sizeof good_;
        good_.tensors = addresses_;
        good_.tensor_count = 2;
        good_.rows = kRows;
        good_.owner = &released_;
        good_.release = [](void* owner) { ++*static_cast<int*>(owner); };
    }
    void TearDown() override {
        if (egress_ != nullptr) {  // undisturbed
            EXPECT_EQ(offramp_egress_submit(egress_, &good_, &error_), OFFRAMP_OK) << error_.text;
            std::uint32_t rows = 0;
            std::thread consumer([&] { rows = consumed_rows(); });
            EXPECT_EQ(offramp_egress_drain(egress_, 60, &error_), OFFRAMP_OK) << error_.text;
            consumer.join();
            EXPECT_EQ(rows % kRows, 0U);
            EXPECT_GE(rows, kRows);
            EXPECT_EQ(released_, static_cast<int>(rows / kRows)) << "accepted batches once, refused ones never";
            EXPECT_EQ(offramp_egress_close(egress_, &error_), OFFRAMP_OK) << error_.text;
        }
        AbiWorld::TearDown();
    }
    offramp_consumer* open_consumer() const {
        offramp_consumer_options options{};
        options.size = sizeof options;
        options.run_dir = run_dir_.c_str();
        offramp_consumer* consumer = nullptr;
        EXPECT_EQ(offramp_consumer_open(&options, &consumer, nullptr), OFFRAMP_OK);
        return consumer;
    }
    std::uint32_t consumed_rows() {
        offramp_consumer* const consumer = open_consumer();
        std::uint32_t rows = 0;
        const offramp_process count = [](void* user, const offramp_slab* slab) -> std::int32_t {
            *static_cast<std::uint32_t*>(user) += slab->sample_count;
            return OFFRAMP_OK;
        };
        offramp_error error{};
        EXPECT_EQ(offramp_consumer_run(consumer, count, &rows, &error), OFFRAMP_OK) << error.text;
        EXPECT_EQ(offramp_consumer_close(consumer, nullptr), OFFRAMP_OK);
        return rows;
    }
    void expect_refused(const offramp_batch& batch, const char* text) {
        error_ = {};
        EXPECT_EQ(offramp_egress_submit(egress_, &batch, &error_), OFFRAMP_BAD_ARGUMENT);
        EXPECT_EQ(error_.code, OFFRAMP_BAD_ARGUMENT);
        EXPECT_THAT(error_.text, HasSubstr(text));
        EXPECT_EQ(offramp_egress_submit(egress_, &batch, nullptr), OFFRAMP_BAD_ARGUMENT) << "the text is not needed";
    }
    void expect_not_opened(const char* text, std::int32_t code = OFFRAMP_BAD_ARGUMENT) {
        auto* opened = reinterpret_cast<offramp_egress*>(&error_);
        EXPECT_EQ(offramp_egress_open(&options_, &opened, &error_), code);
        EXPECT_THAT(error_.text, HasSubstr(text));
        EXPECT_THAT(error_.text, Not(HasSubstr("--"))) << "a caller of the library has no flags";
        EXPECT_EQ(opened, nullptr);
    }

    offramp_egress* egress_ = nullptr;
    Batch made_;
    const void* addresses_[2]{};
    offramp_batch good_{};
    int released_ = 0;
};

TEST_F(Arguments, OpenRefusesBadOnes) {
    EXPECT_EQ(offramp_egress_open(&options_, nullptr, &error_), OFFRAMP_BAD_ARGUMENT);
    offramp_egress* opened = nullptr;
    EXPECT_EQ(offramp_egress_open(nullptr, &opened, &error_), OFFRAMP_BAD_ARGUMENT);
    EXPECT_THAT(error_.text, HasSubstr("offramp_egress_options is null"));
    expect_not_opened("a producer is running in", OFFRAMP_RUN_IN_USE);
    const std::string other = folder_ + "/other";
    options_.run_dir = other.c_str();
    const offramp_egress_options whole = options_;
    const auto with = [&](const std::function<void()>& change, const char* text) {
        change();
        expect_not_opened(text);
        options_ = whole;
    };
    with([&] { options_.size = 0; }, "sizeof");
    with([&] { options_.size = 8; }, "at least");
    with([&] { options_.size = 1 << 20; }, "sizeof");
    with([&] { options_.size = 36; }, "sizeof");  // half of a pointer
    with([&] { options_.slabs = 0xffffffff; }, "4294967295 slabs");
    with([&] { options_.run_dir = nullptr; }, "no run directory");
    with([&] { options_.run_dir = ""; }, "no run directory");
    const std::string too_long = other + "/" + std::string(100, 'l'), occupied = folder_ + "/occupied";
    std::filesystem::create_directories(occupied + "/thing");
    std::filesystem::create_directories(occupied + "/output");  // may be a run's
    with([&] { options_.run_dir = too_long.c_str(); }, "Choose a shorter one");
    with([&] { options_.run_dir = occupied.c_str(); }, "holds other things, such as 'thing'");
    with([&] { options_.tensors = nullptr; }, "0 tensors");
    with([&] { options_.tensor_count = 0; }, "0 tensors");
    with([&] { options_.tensor_count = 17; }, "17 tensors");
    with([&] { options_.device = "gpu"; }, "Unknown device 'gpu'");
    with([&] { options_.run_id = "a/b"; }, "a/b");
    with([&] { options_.max_key_bytes = 5000; }, "5000 bytes");
    with([&] { options_.max_consumers = 65; }, "65 consumers");
    with([&] { options_.max_delay_seconds = -1; }, "max_delay_seconds");
    with([&] { options_.kill_stalled = 2; }, "kill_stalled is 2");
    with([&] { options_.drop_when_full = 3; }, "drop_when_full is 3");
    with([&] { options_.visibility_timeout_seconds = std::numeric_limits<double>::quiet_NaN(); },
         "visibility_timeout_seconds");
    const std::string long_name(64, 'n');
    with([&] { options_.name = long_name.c_str(); }, "64 bytes");
    const offramp_tensor good = tensors_[0];
    const std::vector<std::int64_t> none{kRows, 0}, others{kRows + 1, 3}, gaps{6, 2};
    const auto with_tensor = [&](const std::function<void()>& change, const char* text) {
        change();
        expect_not_opened(text);
        tensors_[0] = good;
    };
    with_tensor([&] { tensors_[0].size = 4; }, "tensor 0");
    with_tensor([&] { tensors_[0].size = sizeof(offramp_tensor) + 1; }, "tensor 0");
    with_tensor([&] { tensors_[0].name = nullptr; }, "no name");
    with_tensor([&] { tensors_[0].dims = 0; }, "0 dimensions");
    with_tensor([&] { tensors_[0].dims = 9; }, "9 dimensions");
    with_tensor([&] { tensors_[0].shape = nullptr; }, "no shape");
    with_tensor([&] { tensors_[0].shape = none.data(); }, "dimension 1 of tensor 0 is 0");
    with_tensor([&] { tensors_[0].shape = others.data(); }, "another number of samples");
    with_tensor([&] { tensors_[0].strides = gaps.data(); }, "dense");
    with_tensor([&] { tensors_[0].dtype = {2, 3, 1}; }, "scores");
    EXPECT_FALSE(std::filesystem::exists(other + "/live/endpoint")) << "no run was started";
    options_.samples_per_slab = 0xffffffff;  // a batch has fewer: a slab a batch
    EXPECT_EQ(offramp_egress_open(&options_, &opened, &error_), OFFRAMP_OK) << error_.text;
    EXPECT_EQ(offramp_egress_close(opened, &error_), OFFRAMP_OK);
}

TEST_F(Arguments, SubmitRefusesBadOnes) {
    EXPECT_EQ(offramp_egress_submit(nullptr, &good_, &error_), OFFRAMP_BAD_ARGUMENT);
    EXPECT_EQ(offramp_egress_submit(egress_, nullptr, &error_), OFFRAMP_BAD_ARGUMENT);
    const auto with = [&](const std::function<void(offramp_batch&)>& change, const char* text) {
        offramp_batch batch = good_;
        change(batch);
        expect_refused(batch, text);
    };
    const void* holes[2] = {addresses_[0], nullptr};
    const char* keys[kRows] = {"a", "b", nullptr, "d"};
    const std::string long_key(256, 'k');
    const char* long_keys[kRows] = {"a", "b", long_key.c_str(), "d"};
    const char* bad_keys[kRows] = {"a", "b", "\xff\x1b[31m", "d"};
    const char* empty_keys[kRows] = {"a", "b", "", "d"};
    const std::uint64_t same[kRows] = {1, 2, 2, 3};
    with([](offramp_batch& batch) { batch.size = 3; }, "offramp_batch");
    with([](offramp_batch& batch) { batch.size = 28; }, "offramp_batch");  // half of a pointer
    with([](offramp_batch& batch) { batch.tensors = nullptr; }, "0 tensors were submitted");
    with([](offramp_batch& batch) { batch.tensor_count = 1; }, "1 tensors were submitted");
    with([&](offramp_batch& batch) { batch.tensors = holes; }, "address of tensor 'ids' is null");
    with([](offramp_batch& batch) { batch.rows = 0; }, "a batch of 0 samples");
    with([](offramp_batch& batch) { batch.rows = 65537; }, "a batch of 65537 samples");
    with([](offramp_batch& batch) { batch.rows = 0xffffffff; }, "a batch of 4294967295 samples");
    with([&](offramp_batch& batch) { batch.keys = keys; }, "key 2 is null");
    with([&](offramp_batch& batch) { batch.keys = long_keys; }, "a key of 256 bytes");
    with([&](offramp_batch& batch) { batch.keys = bad_keys; }, R"(\xff\x1b[31m)");
    with([&](offramp_batch& batch) { batch.keys = empty_keys; }, "a key of 0 bytes");
    with([&](offramp_batch& batch) { batch.items = same; }, "do not increase");
    const std::uint64_t last[kRows] = {1, 2, 3, ~std::uint64_t{0}};
    with([&](offramp_batch& batch) { batch.items = last; }, "the number 18446744073709551615");
    EXPECT_EQ(released_, 0);
}

TEST_F(Arguments, DrainAndStatsRefuseBadOnes) {
    EXPECT_EQ(offramp_egress_drain(nullptr, 0, &error_), OFFRAMP_BAD_ARGUMENT);
    EXPECT_EQ(offramp_egress_drain(egress_, std::numeric_limits<double>::quiet_NaN(), &error_), OFFRAMP_BAD_ARGUMENT);
    EXPECT_EQ(offramp_egress_get_stats(nullptr, nullptr, &error_), OFFRAMP_BAD_ARGUMENT);
    EXPECT_EQ(offramp_egress_get_stats(egress_, nullptr, &error_), OFFRAMP_BAD_ARGUMENT);
    offramp_egress_stats stats{};
    EXPECT_EQ(offramp_egress_get_stats(egress_, &stats, &error_), OFFRAMP_BAD_ARGUMENT);
    struct {
        std::size_t size;
        std::uint64_t batches;
        std::uint64_t beyond;
    } old{.size = sizeof(std::size_t) + 8, .batches = 99, .beyond = 0x5a5a};
    EXPECT_EQ(offramp_egress_get_stats(egress_, reinterpret_cast<offramp_egress_stats*>(&old), &error_), OFFRAMP_OK)
        << error_.text;
    EXPECT_EQ(old.batches, 0U);
    EXPECT_EQ(old.beyond, 0x5a5aU) << "no byte is written beyond the struct of an older caller";
    EXPECT_EQ(offramp_egress_close(nullptr, nullptr), OFFRAMP_OK);
}

TEST_F(Arguments, WaitingForReleasesRefusesBadOnes) {
    std::uint64_t released = 77;
    EXPECT_EQ(offramp_egress_wait_released(nullptr, 0, 0, &released, &error_), OFFRAMP_BAD_ARGUMENT);
    EXPECT_THAT(error_.text, HasSubstr("the egress is null"));
    EXPECT_EQ(offramp_egress_wait_released(egress_, 0, 0, nullptr, &error_), OFFRAMP_BAD_ARGUMENT);
    EXPECT_THAT(error_.text, HasSubstr("the number of released batches is null"));
    const double no_number = std::numeric_limits<double>::quiet_NaN();
    EXPECT_EQ(offramp_egress_wait_released(egress_, 0, no_number, &released, &error_), OFFRAMP_BAD_ARGUMENT);
    EXPECT_EQ(released, 77U);
    EXPECT_EQ(offramp_egress_wait_released(egress_, 0, 0, &released, &error_), OFFRAMP_TIMEOUT);
    EXPECT_THAT(error_.text, HasSubstr("Call it again"));
    EXPECT_EQ(released, 0U);
    EXPECT_EQ(offramp_egress_wait_released(egress_, 5, 0, &released, nullptr), OFFRAMP_TIMEOUT);
    EXPECT_EQ(offramp_egress_wait_unattended(nullptr, 0, 0, 0, &released, &error_), OFFRAMP_BAD_ARGUMENT);
    EXPECT_EQ(offramp_egress_wait_unattended(egress_, 0, 0, 0, nullptr, &error_), OFFRAMP_BAD_ARGUMENT);
    EXPECT_THAT(error_.text, HasSubstr("the number of released batches is null"));
    EXPECT_EQ(offramp_egress_wait_unattended(egress_, 0, -1, 0, &released, &error_), OFFRAMP_BAD_ARGUMENT);
    EXPECT_THAT(error_.text, HasSubstr("quiet_seconds is -1"));
    EXPECT_EQ(offramp_egress_wait_unattended(egress_, 0, 0, no_number, &released, &error_), OFFRAMP_BAD_ARGUMENT);
    EXPECT_EQ(offramp_egress_end_waits(nullptr, &error_), OFFRAMP_BAD_ARGUMENT);
    EXPECT_THAT(error_.text, HasSubstr("the egress is null"));
    good_.timeout_seconds = no_number;
    expect_refused(good_, "the timeout is not a number");
    good_.timeout_seconds = -1;  // TearDown() submits it
}

TEST_F(Arguments, TakeCompletedRefusesBadOnes) {
    offramp_items ranges[2] = {{7, 8}, {7, 8}};
    std::uint32_t count = 77;
    EXPECT_EQ(offramp_egress_take_completed(nullptr, ranges, 2, 0, &count, &error_), OFFRAMP_BAD_ARGUMENT);
    EXPECT_THAT(error_.text, HasSubstr("the egress is null"));
    EXPECT_EQ(offramp_egress_take_completed(egress_, nullptr, 2, 0, &count, &error_), OFFRAMP_BAD_ARGUMENT);
    EXPECT_THAT(error_.text, HasSubstr("the address of the items or of their count is null"));
    EXPECT_EQ(offramp_egress_take_completed(egress_, ranges, 0, 0, &count, &error_), OFFRAMP_BAD_ARGUMENT);
    EXPECT_EQ(offramp_egress_take_completed(egress_, ranges, 2, 0, nullptr, &error_), OFFRAMP_BAD_ARGUMENT);
    EXPECT_EQ(count, 77U);
    EXPECT_EQ(offramp_egress_take_completed(egress_, ranges, 2, 0, &count, &error_), OFFRAMP_BAD_ARGUMENT);
    EXPECT_THAT(error_.text, HasSubstr("without report_completed"));
    EXPECT_EQ(offramp_egress_take_failed(egress_, ranges, 0, 0, &count, &error_), OFFRAMP_BAD_ARGUMENT);
    EXPECT_EQ(offramp_egress_take_failed(egress_, ranges, 2, 0, &count, &error_), OFFRAMP_BAD_ARGUMENT);
    EXPECT_THAT(error_.text, HasSubstr("without report_failed"));
    EXPECT_EQ(count, 0U);
    EXPECT_EQ(ranges[0].begin, 7U);
}

TEST_F(Arguments, SubmitIsRefusedAfterDrain) {
    EXPECT_EQ(offramp_egress_submit(egress_, &good_, &error_), OFFRAMP_OK) << error_.text;
    EXPECT_EQ(offramp_egress_drain(egress_, 0, &error_), OFFRAMP_TIMEOUT);
    EXPECT_THAT(error_.text, HasSubstr("Call it again"));
    expect_refused(good_, "after drain()");
    EXPECT_EQ(consumed_rows(), kRows);
    EXPECT_EQ(offramp_egress_drain(egress_, 60, &error_), OFFRAMP_OK) << error_.text;
    EXPECT_EQ(offramp_egress_drain(egress_, 60, &error_), OFFRAMP_OK) << "again";
    expect_refused(good_, "after drain()");
    EXPECT_EQ(offramp_egress_close(egress_, &error_), OFFRAMP_OK);
    EXPECT_EQ(released_, 1);
    egress_ = nullptr;
}

TEST_F(Arguments, AConsumerRefusesBadOnes) {
    offramp_consumer_options options{};
    offramp_consumer* consumer = nullptr;
    EXPECT_EQ(offramp_consumer_open(nullptr, &consumer, &error_), OFFRAMP_BAD_ARGUMENT);
    EXPECT_EQ(offramp_consumer_open(&options, nullptr, &error_), OFFRAMP_BAD_ARGUMENT);
    EXPECT_EQ(offramp_consumer_open(&options, &consumer, &error_), OFFRAMP_BAD_ARGUMENT);
    options.size = sizeof options;
    EXPECT_EQ(offramp_consumer_open(&options, &consumer, &error_), OFFRAMP_BAD_ARGUMENT);
    const std::string nowhere = folder_ + "/nowhere";
    options.run_dir = nowhere.c_str();
    options.wait_for_run_seconds = -3;
    EXPECT_EQ(offramp_consumer_open(&options, &consumer, &error_), OFFRAMP_BAD_ARGUMENT);
    options.wait_for_run_seconds = 0.05;
    ASSERT_EQ(offramp_consumer_open(&options, &consumer, &error_), OFFRAMP_OK) << error_.text;
    EXPECT_EQ(offramp_consumer_run(consumer, nullptr, nullptr, &error_), OFFRAMP_BAD_ARGUMENT);
    const offramp_process never = [](void*, const offramp_slab*) -> std::int32_t { return OFFRAMP_OK; };
    EXPECT_EQ(offramp_consumer_run(consumer, never, nullptr, &error_), OFFRAMP_NO_SUCH_RUN);
    EXPECT_THAT(error_.text, HasSubstr("nowhere"));
    EXPECT_EQ(offramp_consumer_progress(consumer), OFFRAMP_BAD_ARGUMENT) << "no slab is processed";
    EXPECT_EQ(offramp_consumer_still_current(consumer), 0);
    EXPECT_EQ(offramp_consumer_progress(nullptr), OFFRAMP_BAD_ARGUMENT);
    EXPECT_EQ(offramp_consumer_still_current(nullptr), 0);
    EXPECT_EQ(offramp_consumer_stop(nullptr), OFFRAMP_BAD_ARGUMENT);
    EXPECT_EQ(offramp_consumer_stop(consumer), OFFRAMP_OK);
    EXPECT_EQ(offramp_consumer_run(consumer, never, nullptr, &error_), OFFRAMP_STOPPED);
    EXPECT_EQ(offramp_consumer_close(consumer, &error_), OFFRAMP_OK);
    EXPECT_EQ(offramp_consumer_close(nullptr, &error_), OFFRAMP_OK);
}

// `egress` is any pointer that is not an open egress.
void expect_no_egress(offramp_egress* egress, const offramp_batch& batch) {
    std::uint64_t released = 77;
    offramp_egress_stats stats{};
    stats.size = sizeof stats;
    offramp_error error{};
    const auto expect_refused = [&](std::int32_t code, const char* call) {
        EXPECT_EQ(code, OFFRAMP_BAD_ARGUMENT) << call;
        EXPECT_STREQ(error.text, "the egress was closed, or was never opened by this library. Open one") << call;
        error = {};
    };
    expect_refused(offramp_egress_submit(egress, &batch, &error), "submit");
    expect_refused(offramp_egress_drain(egress, 60, &error), "drain");
    expect_refused(offramp_egress_get_stats(egress, &stats, &error), "get_stats");
    expect_refused(offramp_egress_wait_released(egress, 0, -1, &released, &error), "wait_released");
    expect_refused(offramp_egress_wait_unattended(egress, 0, 0, -1, &released, &error), "wait_unattended");
    expect_refused(offramp_egress_end_waits(egress, &error), "end_waits");
    expect_refused(offramp_egress_close(egress, &error), "close");
    EXPECT_EQ(offramp_egress_close(egress, nullptr), OFFRAMP_BAD_ARGUMENT) << "the text is not needed";
    EXPECT_EQ(released, 77U);
}

void expect_no_consumer(offramp_consumer* consumer) {
    offramp_error error{};
    const offramp_process never = [](void*, const offramp_slab*) -> std::int32_t { return OFFRAMP_OK; };
    constexpr const char* kText = "the consumer was closed, or was never opened by this library. Open one";
    EXPECT_EQ(offramp_consumer_run(consumer, never, nullptr, &error), OFFRAMP_BAD_ARGUMENT);
    EXPECT_STREQ(error.text, kText);
    error = {};
    EXPECT_EQ(offramp_consumer_close(consumer, &error), OFFRAMP_BAD_ARGUMENT);
    EXPECT_STREQ(error.text, kText);
    EXPECT_EQ(offramp_consumer_close(consumer, nullptr), OFFRAMP_BAD_ARGUMENT);
    EXPECT_EQ(offramp_consumer_progress(consumer), OFFRAMP_BAD_ARGUMENT);
    EXPECT_EQ(offramp_consumer_still_current(consumer), 0);
    EXPECT_EQ(offramp_consumer_stop(consumer), OFFRAMP_BAD_ARGUMENT);
}

TEST_F(Arguments, AClosedEgressIsRefused) {
    EXPECT_EQ(offramp_egress_close(egress_, &error_), OFFRAMP_OK) << error_.text;
    expect_no_egress(egress_, good_);
    EXPECT_EQ(released_, 0);
    egress_ = nullptr;
}

TEST_F(Arguments, AClosedConsumerIsRefused) {
    expect_no_consumer([this] {
        offramp_consumer* consumer = open_consumer();
        EXPECT_EQ(offramp_consumer_close(consumer, nullptr), OFFRAMP_OK);
        return consumer;
    }());
}

// An unmapped address, memory of another kind, and a handle of the other kind.
TEST_F(Arguments, AHandleThatWasNeverOpenedIsRefused) {
    auto* const nowhere = reinterpret_cast<void*>(std::uintptr_t{64});
    std::array<std::byte, 1024> memory{};
    offramp_consumer* const consumer = open_consumer();
    for (void* const stray : {nowhere, static_cast<void*>(memory.data()), static_cast<void*>(consumer)})
        expect_no_egress(static_cast<offramp_egress*>(stray), good_);
    for (void* const stray : {nowhere, static_cast<void*>(memory.data()), static_cast<void*>(egress_)})
        expect_no_consumer(static_cast<offramp_consumer*>(stray));
    EXPECT_EQ(offramp_consumer_stop(consumer), OFFRAMP_OK) << "undisturbed";
    EXPECT_EQ(offramp_consumer_close(consumer, nullptr), OFFRAMP_OK);
}

TEST_F(Arguments, ManyHandlesAreKeptApart) {
    std::vector<offramp_consumer*> consumers(100);
    for (offramp_consumer*& consumer : consumers) consumer = open_consumer();
    for (std::size_t i = 0; i < consumers.size(); i += 2)
        EXPECT_EQ(offramp_consumer_close(consumers[i], nullptr), OFFRAMP_OK);
    for (std::size_t i = 0; i < consumers.size(); ++i)
        EXPECT_EQ(offramp_consumer_stop(consumers[i]), i % 2 == 0 ? OFFRAMP_BAD_ARGUMENT : OFFRAMP_OK);
    for (std::size_t i = 1; i < consumers.size(); i += 2)
        EXPECT_EQ(offramp_consumer_close(consumers[i], nullptr), OFFRAMP_OK);
}

TEST_F(Arguments, HandlesOfSeveralThreadsAreKeptApart) {
    std::vector<std::thread> threads;
    for (int number = 0; number < 4; ++number)
        threads.emplace_back([this] {
            for (int round = 0; round < 50; ++round) {
                std::array<offramp_consumer*, 20> consumers{};
                for (offramp_consumer*& consumer : consumers) consumer = open_consumer();
                for (offramp_consumer* const consumer : consumers) {
                    EXPECT_EQ(offramp_consumer_stop(consumer), OFFRAMP_OK);
                    EXPECT_EQ(offramp_consumer_close(consumer, nullptr), OFFRAMP_OK);
                }
            }
        });
    for (std::thread& thread : threads) thread.join();
}

TEST_F(Arguments, AForkedChildsHandlesAreRefusedAndTheRunContinues) {
    offramp_consumer* const consumer = open_consumer();
    const pid_t child = ::fork();
    if (child == 0) {
        const bool refused =
            offramp_consumer_stop(consumer) == OFFRAMP_WRONG_PROCESS &&
            offramp_consumer_progress(consumer) == OFFRAMP_WRONG_PROCESS &&
            offramp_consumer_explain(consumer, "why") == OFFRAMP_WRONG_PROCESS &&
            offramp_consumer_close(consumer, nullptr) == OFFRAMP_WRONG_PROCESS &&
            offramp_egress_submit(egress_, &good_, nullptr) == OFFRAMP_WRONG_PROCESS &&
            offramp_egress_drain(egress_, 0, nullptr) == OFFRAMP_WRONG_PROCESS &&
            offramp_egress_wait_released(egress_, 0, -1, nullptr, nullptr) == OFFRAMP_WRONG_PROCESS &&
            offramp_egress_wait_unattended(egress_, 0, 0, -1, nullptr, nullptr) == OFFRAMP_WRONG_PROCESS &&
            offramp_egress_end_waits(egress_, nullptr) == OFFRAMP_WRONG_PROCESS &&
            offramp_egress_close(egress_, nullptr) == OFFRAMP_WRONG_PROCESS;
        ::_exit(refused ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    EXPECT_EQ(offramp_consumer_close(consumer, nullptr), OFFRAMP_OK);
}

TEST(Codes, HaveDistinctNames) {
    std::set<std::string> names;
    for (const int code : {OFFRAMP_OK,
                           OFFRAMP_INTERNAL,
                           OFFRAMP_TIMEOUT,
                           OFFRAMP_WRONG_PROCESS,
                           OFFRAMP_CALLBACK_FAILED,
                           OFFRAMP_FAILED,
                           OFFRAMP_REJECTED,
                           OFFRAMP_BAD_ARGUMENT,
                           OFFRAMP_NO_SUCH_RUN,
                           OFFRAMP_SYSTEM,
                           OFFRAMP_CANNOT_WRITE,
                           OFFRAMP_RETRY,
                           OFFRAMP_PROTOCOL,
                           OFFRAMP_NOT_PERMITTED,
                           OFFRAMP_SHARED_MEMORY_FULL,
                           OFFRAMP_DEVICE_OUT_OF_MEMORY,
                           OFFRAMP_DEVICE_BROKEN,
                           OFFRAMP_DEVICE_UNSUPPORTED,
                           OFFRAMP_RUN_IN_USE,
                           OFFRAMP_PRODUCER_GONE,
                           OFFRAMP_STOPPED})
        names.emplace(offramp_code_name(code));
    EXPECT_EQ(names.size(), 21U);
    EXPECT_STREQ(offramp_code_name(12345), "?");
    EXPECT_STRNE(offramp_version(), "");
}

}  // namespace
}  // namespace offramp::test
