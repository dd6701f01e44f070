#include "producer/egress/egress_run.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "common/base/error.hpp"
#include "common/shm/run_objects.hpp"
#include "common/transport/endpoint.hpp"
#include "producer/device/device.hpp"
#include "tests/unit/shm/child_process.hpp"
#include "tests/unit/shm/own_objects.hpp"
#include "tests/unit/transport/temporary_folder.hpp"

namespace offramp {
namespace {

using support::ChildProcess;

constexpr std::uint32_t kRows = 4;
constexpr std::uint32_t kSlabsOfRun = 3;

TensorSpec four_rows() {
    const std::int64_t shape[] = {kRows, 16};
    return TensorSpec::contiguous("payload", kUInt8, shape);
}

struct Indifferent final : RunListener {};
struct NoItems final : ItemListener {};

// A run in a folder, from one producer's view.
struct ProducersWorld {
    ProducersWorld(const std::string& folder, RunStart start, RunListener& listener,
                   RunSlabs slabs = RunSlabs::PageLockedPool)
        : place({.run_dir = folder, .run_id = "t" + std::to_string(kOwner) + "-egress", .start = start}) {
        EgressRunOptions options{
            .layout = SlabLayout::make({four_rows()}, kRows), .slabs = slabs, .stream = {.batch = kRows}};
        options.spans = SpanPlan::make(kSlabsOfRun, options.layout.slab_bytes);
        options.broker.allowed_uids = {::geteuid()};
        options.items = 40;
        egress.emplace(place, *device, timeline, std::move(options), listener, items);
    }
    void submit(std::uint64_t number) {
        OutputBatch batch{.number = number, .rows = std::vector<RowInfo>(kRows)};
        for (std::uint32_t row = 0; row < kRows; ++row) batch.rows[row].item = number * kRows + row;
        const auto bytes = std::make_shared<std::vector<std::byte>>(kRows * 16, std::byte(number));
        batch.tensors.push_back({four_rows(), bytes->data(), bytes});
        batch.computed = device->make_event();
        compute->record(*batch.computed);
        egress->stream().submit(std::move(batch));
    }
    void wait_until_published(std::uint64_t samples) const {
        while (egress->broker().report().published.samples < samples) std::this_thread::yield();
    }

    static inline const pid_t kOwner = ::getpid();  // the test's program, also in its children
    RunDirectoryLock place;
    std::unique_ptr<Device> device = open_device("cpu");
    std::unique_ptr<Stream> compute = device->make_stream("compute");
    DeviceTimeline timeline{*device, *compute};
    NoItems items;
    std::optional<EgressRun> egress;
};

class EgressRunTest : public ::testing::Test {
  protected:
    // A producer that publishes a batch and dies without clean-up. Like a launcher, the test protects its run from
    // sweeps until the next producer takes it.
    void die_with_a_batch_in_flight() {
        ChildProcess producer([&](int words) -> int {
            ProducersWorld world(folder_.path(), RunStart::Begun, nobody_);
            world.egress->open_to_consumers();
            world.submit(0);
            world.wait_until_published(kRows);
            ChildProcess::report(words);
            support::wait_to_be_killed();
        });
        ASSERT_TRUE(producer.reported());
        kept_.emplace(RunLock::hold(Endpoint::read(folder_.path())->names, false));
        producer.kill();
        ASSERT_TRUE(WIFSIGNALED(producer.wait()));
    }

    support::TemporaryFolder folder_;
    std::optional<RunLock> kept_;
    Indifferent nobody_;
};

TEST_F(EgressRunTest, DescribesARunBeforeConsumersCanJoinIt) {
    const std::string endpoint = folder_.file("live/endpoint");
    struct Listener final : RunListener {
        void on_begin(RunProgress& progress) override {
            met_before = std::filesystem::exists(endpoint);
            progress.items = 40;
        }
        std::string endpoint;
        bool met_before = true;
    } listener;
    listener.endpoint = endpoint;
    ProducersWorld world(folder_.path(), RunStart::Begun, listener);
    EXPECT_FALSE(listener.met_before);
    EXPECT_FALSE(std::filesystem::exists(endpoint)) << "the creator of the run opens it";
    EXPECT_EQ(world.egress->progress()->items, 40U);
    EXPECT_EQ(world.egress->progress()->producers, 1U);
    world.egress->open_to_consumers();
    EXPECT_TRUE(std::filesystem::exists(endpoint));
    world.place.close_to_consumers();
    EXPECT_FALSE(std::filesystem::exists(endpoint));
}

TEST_F(EgressRunTest, TheNextProducerContinuesADeadOnesRun) {
    die_with_a_batch_in_flight();
    struct Listener final : RunListener {
        void on_begin(RunProgress&) override { asked += "begin "; }
        void check_input(const RunProgress& progress) override {
            asked += "input " + std::to_string(progress.producers);
        }
        void check_kept(const RunProgress&, const Predecessor& left) override {
            asked += " kept " + std::to_string(left.in_flight.size());
        }
        std::string asked;
    } listener;
    ProducersWorld world(folder_.path(), RunStart::Recovered, listener);
    kept_.reset();
    world.place.take_ownership();
    EXPECT_EQ(listener.asked, "input 1 kept 1");
    EXPECT_EQ(world.place.endpoint().epoch, 2U);
    EXPECT_EQ(world.egress->progress()->producers, 2U);
    EXPECT_EQ(world.egress->predecessor().in_flight.front().samples, kRows);
    world.submit(1);
    world.wait_until_published(2 * kRows);
    EXPECT_EQ(world.egress->broker().report().in_flight.samples, 2 * kRows);
}

TEST_F(EgressRunTest, ARefusedRecoveryKeepsTheRunForTheNext) {
    die_with_a_batch_in_flight();
    ChildProcess refuses([&](int) -> int {
        struct Listener final : RunListener {
            void check_kept(const RunProgress&, const Predecessor&) override {
                throw std::runtime_error("another checkpoint");
            }
        } listener;
        try {
            ProducersWorld world(folder_.path(), RunStart::Recovered, listener);
        } catch (const std::runtime_error&) {
            return 0;
        }
        return 1;
    });
    ASSERT_EQ(refuses.wait(), 0);
    ProducersWorld world(folder_.path(), RunStart::Recovered, nobody_);
    kept_.reset();
    world.place.take_ownership();
    EXPECT_EQ(world.place.endpoint().epoch, 3U) << "the refused recovery used one epoch";
    EXPECT_EQ(world.egress->progress()->producers, 2U);
    EXPECT_EQ(world.egress->predecessor().in_flight.size(), 1U);
}

TEST_F(EgressRunTest, ARunWithoutConsumersHasNoMeetingPlace) {
    ProducersWorld world(folder_.path(), RunStart::Begun, nobody_, RunSlabs::None);
    world.egress->open_to_consumers();
    EXPECT_FALSE(std::filesystem::exists(folder_.file("live/endpoint")));
    EXPECT_EQ(world.egress->progress(), nullptr);
    EXPECT_FALSE(world.egress->has_pool());
    EXPECT_EQ(support::objects_of(world.place.names()).size(), 1U) << "only the run's lock";
    world.egress->stop();
    EXPECT_FALSE(world.egress->borrow_slab()) << "the egress no longer waits for slabs";
}

TEST(Pinning, IsTestedOnceOnTheFirstRange) {
    const auto device = open_device("cpu");
    std::vector<std::byte> first(1 << 16), second(1 << 16);
    Pinning pinning(*device, {});
    EXPECT_EQ(pinning.proof().gigabytes_per_second, 0);
    const auto kept = pinning.lock(first);
    const double measured = pinning.proof().gigabytes_per_second;
    EXPECT_GT(measured, 0);
    const auto other = pinning.lock(second);
    EXPECT_EQ(pinning.proof().gigabytes_per_second, measured);
    EXPECT_TRUE(kept && other);
}

TEST(Pinning, PinsNothingWhenDisabledAndTestsNothingUnasked) {
    const auto device = open_device("cpu");
    std::vector<std::byte> range(1 << 16);
    Pinning ordinary(*device, {.wanted = false});
    EXPECT_FALSE(ordinary.lock(range));
    EXPECT_GT(ordinary.proof().gigabytes_per_second, 0);
    Pinning unproved(*device, {.proved = false});
    EXPECT_TRUE(unproved.lock(range));
    EXPECT_EQ(unproved.proof().gigabytes_per_second, 0);
}

}  // namespace
}  // namespace offramp
