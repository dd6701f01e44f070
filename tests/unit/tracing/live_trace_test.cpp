#include "common/tracing/live_trace.hpp"

#include <gtest/gtest.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "common/base/trace.hpp"
#include "common/json/json_text.hpp"
#include "tests/unit/transport/temporary_folder.hpp"

namespace offramp {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kWatchdog{60};

// A log that blocks, a minute at most, until released, like a log on a stalling disk.
class StalledLog {
  public:
    StalledLog() {
        spdlog::set_default_logger(std::make_shared<spdlog::logger>("stalled", std::make_shared<Sink>(*this)));
    }
    ~StalledLog() { spdlog::set_default_logger(before_); }
    void wait_until_used() { used_.get_future().wait(); }
    void resume() { resume_.set_value(); }

  private:
    struct Sink : spdlog::sinks::base_sink<std::mutex> {
        explicit Sink(StalledLog& log) : log_(log) {}
        void sink_it_(const spdlog::details::log_msg&) override {
            log_.used_.set_value();
            log_.resumed_.wait_for(kWatchdog);
        }
        void flush_() override {}
        StalledLog& log_;
    };
    const std::shared_ptr<spdlog::logger> before_ = spdlog::default_logger();
    std::promise<void> used_, resume_;
    const std::shared_future<void> resumed_ = resume_.get_future().share();
};

// The test sets the time.
class LiveTraceTest : public ::testing::Test {
  protected:
    ~LiveTraceTest() override { take_ranges(); }

    // From 1 s after now to 3 s after it.
    void ask(const std::string& id) { put({{"id", id}, {"from_ns", at(1000)}, {"until_ns", at(3000)}}); }
    void put(const nlohmann::json& request) {
        std::ofstream(folder_.file("new")) << json_text(request);
        ASSERT_EQ(0, std::rename(folder_.file("new").c_str(), folder_.file("live/trace-request.json").c_str()));
    }
    void make_folder(const std::string& id) { ASSERT_EQ(0, ::mkdir(folder_.file("logs/trace-" + id).c_str(), 0700)); }
    void look_after(milliseconds time) { trace_.look(now_ + time); }
    void wait_for_answer() { trace_.end(); }
    std::uint64_t at(std::int64_t ms) const { return to_ns(now_ + milliseconds(ms)); }
    std::string answer(const std::string& id) const {
        return folder_.file("logs/trace-" + id + "/consumer-" + std::to_string(::getpid()) + ".jsonl");
    }
    std::vector<nlohmann::json> lines(const std::string& id) const {
        std::vector<nlohmann::json> found;
        std::ifstream file(answer(id));
        for (std::string line; std::getline(file, line);) found.push_back(parse_json(line));
        return found;
    }

    const TimePoint now_ = kSteadyClock.now();
    support::TemporaryRunFolder folder_;
    int begun_ = 0;
    LiveTrace trace_{folder_.path(), "consumer", "consumer", [this] { ++begun_; }};
};

TEST_F(LiveTraceTest, RecordsOnlyTheRequestedTime) {
    make_folder("a-1");
    look_after(milliseconds(0));
    EXPECT_FALSE(recording());
    ask("a-1");
    look_after(milliseconds(100));
    EXPECT_FALSE(recording()) << "it checks at intervals";
    look_after(milliseconds(300));
    EXPECT_TRUE(recording());
    EXPECT_EQ(begun_, 1);
    record_range("before", 1, at(400), at(900));
    record_range("into", 2, at(900), at(1100));
    record_range("inside", 3, at(1500), at(1600));
    record_range("after", 4, at(3000), at(3100));
    look_after(milliseconds(2900));
    EXPECT_TRUE(recording());
    EXPECT_FALSE(std::filesystem::exists(answer("a-1")));
    look_after(milliseconds(3200));
    EXPECT_FALSE(recording());
    wait_for_answer();
    const auto events = lines("a-1");
    ASSERT_EQ(events.size(), 3U);
    EXPECT_EQ(events[0]["process"], "consumer");
    EXPECT_EQ(events[0]["pid"], ::getpid());
    EXPECT_EQ(events[0]["not_kept"], 0);
    EXPECT_EQ(events[1]["name"], "into");
    EXPECT_EQ(events[2]["name"], "inside");
    EXPECT_EQ(events[2]["lane"], "consumer");

    look_after(milliseconds(3500));
    EXPECT_FALSE(recording()) << "the same request is ignored";
    make_folder("a-2");
    put({{"id", "a-2"}, {"from_ns", at(4000)}, {"until_ns", at(5000)}});
    look_after(milliseconds(4000));
    EXPECT_TRUE(recording());
    EXPECT_EQ(begun_, 2);
}

TEST_F(LiveTraceTest, EventsBeforeTheRequestedTimeTakeNoRoom) {
    make_folder("a-1");
    ask("a-1");
    look_after(milliseconds(300));
    for (std::uint64_t i = 0; i < LiveTrace::kMostRangesKept; ++i) record_range("before", i, at(400), at(900));
    record_range("inside", 3, at(1500), at(1600));
    look_after(milliseconds(3200));
    wait_for_answer();
    const auto events = lines("a-1");
    ASSERT_EQ(events.size(), 2U);
    EXPECT_EQ(events[0]["not_kept"], 0);
    EXPECT_EQ(events[1]["name"], "inside");
}

TEST_F(LiveTraceTest, AProcessThatEndsEarlyWritesItsEvents) {
    make_folder("a-1");
    ask("a-1");
    look_after(milliseconds(300));
    record_range("inside", 3, at(1500), at(1600));
    trace_.end();
    EXPECT_FALSE(recording());
    EXPECT_EQ(lines("a-1").size(), 2U);
}

TEST_F(LiveTraceTest, IgnoresOtherFiles) {
    make_folder("late");
    const std::vector<nlohmann::json> requests{
        nlohmann::json::array(),
        {{"id", 5}, {"from_ns", at(1000)}, {"until_ns", at(3000)}},
        {{"id", "../up"}, {"from_ns", at(1000)}, {"until_ns", at(3000)}},
        {{"id", ""}, {"from_ns", at(1000)}, {"until_ns", at(3000)}},
        {{"id", "nobodys-folder"}, {"from_ns", at(1000)}, {"until_ns", at(3000)}},
        {{"id", "late"}, {"from_ns", at(-9000)}, {"until_ns", at(-8000)}},
        {{"id", "late"}, {"from_ns", -1}, {"until_ns", "soon"}},
        {{"id", "late"}, {"from_ns", at(1000)}, {"until_ns", at(24 * 3'600'000)}},  // before the machine's start
    };
    milliseconds time{0};
    for (const nlohmann::json& request : requests) {
        put(request);
        look_after(time += LiveTrace::kLookEvery);
        EXPECT_FALSE(recording()) << request;
    }
    std::ofstream(folder_.file("live/trace-request.json")) << "no JSON";
    look_after(time += LiveTrace::kLookEvery);
    EXPECT_FALSE(recording());
}

TEST_F(LiveTraceTest, AProcessThatAlreadyRecordsContinues) {
    make_folder("a-1");
    ask("a-1");
    ASSERT_TRUE(keep_ranges("main"));
    look_after(milliseconds(300));
    record_range("some", 1, at(1500), at(1600));
    look_after(milliseconds(3300));
    EXPECT_FALSE(std::filesystem::exists(answer("a-1")));
    const auto kept = take_ranges();
    ASSERT_TRUE(kept);
    EXPECT_EQ(kept->ranges.size(), 1U);
}

// The writer reports the missing folder to the blocked log.
TEST_F(LiveTraceTest, ACheckDoesNotWaitForTheWriting) {
    StalledLog log;
    make_folder("a-1");
    ask("a-1");
    look_after(milliseconds(300));
    std::filesystem::remove_all(folder_.file("logs/trace-a-1"));
    look_after(milliseconds(3300));
    log.wait_until_used();
    make_folder("a-2");
    put({{"id", "a-2"}, {"from_ns", at(4000)}, {"until_ns", at(5000)}});
    look_after(milliseconds(3600));
    EXPECT_FALSE(recording()) << "the first one is still being written";
    log.resume();
    wait_for_answer();
    look_after(milliseconds(3900));
    EXPECT_TRUE(recording()) << "the second one was not forgotten";
}

TEST_F(LiveTraceTest, SurvivesTheRemovalOfTheFolder) {
    make_folder("a-1");
    ask("a-1");
    look_after(milliseconds(300));
    std::filesystem::remove_all(folder_.file("logs/trace-a-1"));
    look_after(milliseconds(3300));
    EXPECT_FALSE(recording());
}

}  // namespace
}  // namespace offramp
