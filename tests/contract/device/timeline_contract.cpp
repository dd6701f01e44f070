#include <cerrno>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "common/base/clock.hpp"
#include "common/base/error.hpp"
#include "common/base/trace.hpp"
#include "producer/device/device_timeline.hpp"
#include "tests/contract/device/device_contract.hpp"

namespace offramp {
namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;

// A stream that can stop recording events; everything else is forwarded to the real one.
class RefusingStream final : public Stream {
  public:
    explicit RefusingStream(std::unique_ptr<Stream> real) : real_(std::move(real)) {}

    bool refuses = false;

    void copy_to_host(std::byte* to, const void* from, std::size_t bytes) override {
        real_->copy_to_host(to, from, bytes);
    }
    void copy_to_device(void* to, const std::byte* from, std::size_t bytes) override {
        real_->copy_to_device(to, from, bytes);
    }
    void run_on_host(std::function<void()> work) override { real_->run_on_host(std::move(work)); }
    void record(Event& event) override {
        if (refuses) throw SystemError("recording an event", EIO);
        real_->record(event);
    }
    void wait_for(Event& event) override { real_->wait_for(event); }
    void synchronize() override { real_->synchronize(); }
    void* native() const override { return real_->native(); }

  private:
    const std::unique_ptr<Stream> real_;
};

class TimelineContract : public DeviceContract {
  protected:
    void SetUp() override {
        DeviceContract::SetUp();
        if (IsSkipped()) return;
        device().use_on_this_thread();
        stream_.emplace(device().make_stream("timeline"));
        work_ = device().make_stream("work");
        began_ = device().make_event(Device::Timing::On);
        ended_ = device().make_event(Device::Timing::On);
    }
    void TearDown() override { take_ranges(); }

    // Some device work between the first and the second event.
    void work() {
        work_->record(*began_);
        work_->run_on_host([] {});
        work_->record(*ended_);
        ended_->wait();
    }
    std::size_t added(DeviceTimeline& timeline) {
        work();
        timeline.add("compute", 1, *began_, *ended_);
        const auto kept = take_ranges();
        keep_ranges("main");
        return kept ? kept->ranges.size() : 0;
    }

    std::optional<RefusingStream> stream_;
    std::unique_ptr<Stream> work_;
    std::unique_ptr<Event> began_, ended_;
};

TEST_P(TimelineContract, PlacesDeviceWorkOnTheHostClock) {
    DeviceTimeline timeline(device(), *stream_);
    ASSERT_TRUE(keep_ranges("main"));
    timeline.align();
    const std::uint64_t before_ns = now_ns();
    work();
    const std::uint64_t after_ns = now_ns();
    timeline.add("compute", 7, *began_, *ended_);
    const auto kept = take_ranges();
    ASSERT_TRUE(kept);
    ASSERT_EQ(kept->ranges.size(), 1U);
    const RecordedRange& range = kept->ranges[0];
    EXPECT_EQ(range.batch, 7U);
    EXPECT_TRUE(range.on_device);
    EXPECT_LE(range.begin_ns, range.end_ns);
    // How closely the clocks agree depends on the machine.
    EXPECT_GT(range.begin_ns + kSecond, before_ns);
    EXPECT_LT(range.end_ns, after_ns + kSecond);
}

TEST_P(TimelineContract, RecordsNothingWithoutAlignedClocks) {
    DeviceTimeline timeline(device(), *stream_);
    ASSERT_TRUE(keep_ranges("main"));
    EXPECT_EQ(added(timeline), 0U) << "never aligned";
    stream_->refuses = true;
    EXPECT_THROW(timeline.align(), SystemError);
    EXPECT_EQ(added(timeline), 0U) << "the alignment failed";
    stream_->refuses = false;
    timeline.align();
    EXPECT_EQ(added(timeline), 1U);
    stream_->refuses = true;
    EXPECT_THROW(timeline.align(), SystemError);
    EXPECT_EQ(added(timeline), 0U) << "the earlier alignment is too old";
}

INSTANTIATE_TEST_SUITE_P(Device, TimelineContract, testing::ValuesIn(devices_under_test()), device_name);

}  // namespace
}  // namespace offramp
