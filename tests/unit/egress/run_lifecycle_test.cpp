#include "producer/egress/run_lifecycle.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "common/base/error.hpp"

namespace offramp {
namespace {

// Records its calls, one letter each.
class RecordedRun : public StoppableRun {
  public:
    void end_input() override { asked += 'i'; }
    void stop_outputs() override { asked += 'o'; }
    void dismiss_consumers() override { asked += 'c'; }
    std::string asked;
};

enum class Event { Begin, Drain, Halt, Abandon, Note, End };
using enum Event;
constexpr std::array<const char*, 6> kEventNames{"begin", "drain", "halt", "abandon", "note", "end"};

void take(RunLifecycle& life, Event event) {
    switch (event) {
        case Begin:
            return life.begin();
        case Drain:
            return life.stop(StopMode::Drain, "a test");
        case Halt:
            return life.stop(StopMode::Halt, "a test");
        case Abandon:
            return life.stop(StopMode::Abandon, "a test");
        case Note:
            return life.note(std::make_exception_ptr(std::runtime_error("broken")));
        case End:
            return life.end();
    }
}

constexpr std::optional<StopMode> kNone{};

// The states of a run, and the effect of each event in each state. An event that is not listed has no effect; begin
// comes once, before all that is under way.
struct Change {
    Event event;
    const char* place;
    const char* asked;
};
struct Place {
    const char* name;
    std::vector<Event> way;
    RunState state;
    std::optional<StopMode> stopped;
    const char* word;
    std::vector<Change> changes;
};

const std::vector<Place> kPlaces{
    {"starting",
     {},
     RunState::Starting,
     kNone,
     "running",
     {{Begin, "running", ""},
      {Drain, "starting, drained", ""},
      {Halt, "starting, halted", ""},
      {Abandon, "starting, abandoned", ""},
      {End, "ended", ""}}},
    {"starting, drained",
     {Drain},
     RunState::Starting,
     StopMode::Drain,
     "draining",
     {{Begin, "draining", "i"},
      {Halt, "starting, halted", ""},
      {Abandon, "starting, abandoned", ""},
      {End, "ended, drained", ""}}},
    {"starting, halted",
     {Halt},
     RunState::Starting,
     StopMode::Halt,
     "draining",
     {{Begin, "halted", "io"}, {Abandon, "starting, abandoned", ""}, {End, "ended, halted", ""}}},
    {"starting, abandoned",
     {Abandon},
     RunState::Starting,
     StopMode::Abandon,
     "draining",
     {{Begin, "abandoned", "ioc"}, {End, "ended, abandoned", ""}}},
    {"running",
     {Begin},
     RunState::Running,
     kNone,
     "running",
     {{Drain, "draining", "i"}, {Halt, "halted", "io"}, {Abandon, "abandoned", "ioc"}, {End, "ended", ""}}},
    {"draining",
     {Begin, Drain},
     RunState::Draining,
     StopMode::Drain,
     "draining",
     {{Halt, "halted", "io"}, {Abandon, "abandoned", "ioc"}, {End, "ended, drained", ""}}},
    {"halted",
     {Begin, Halt},
     RunState::Stopping,
     StopMode::Halt,
     "draining",
     {{Abandon, "abandoned", "ioc"}, {End, "ended, halted", ""}}},
    {"abandoned", {Begin, Abandon}, RunState::Stopping, StopMode::Abandon, "draining", {{End, "ended, abandoned", ""}}},
    {"ended", {Begin, End}, RunState::Ended, kNone, "ended", {}},
    {"ended, drained", {Begin, Drain, End}, RunState::Ended, StopMode::Drain, "ended", {}},
    {"ended, halted", {Begin, Halt, End}, RunState::Ended, StopMode::Halt, "ended", {}},
    {"ended, abandoned", {Begin, Abandon, End}, RunState::Ended, StopMode::Abandon, "abandoned", {}},
};

Change change_at(const Place& place, Event event) {
    for (const Change& change : place.changes)
        if (change.event == event) return change;
    return {event, place.name, ""};
}

const Place& place_named(const std::string& name) {
    for (const Place& place : kPlaces)
        if (place.name == name) return place;
    throw std::logic_error("no place is called " + name);
}

void expect_at(const RunLifecycle& life, const Place& place) {
    EXPECT_EQ(life.state(), place.state);
    EXPECT_EQ(life.stopped(), place.stopped);
    EXPECT_STREQ(life.word(), life.error() ? "failed" : place.word);
    EXPECT_EQ(life.while_under_way([] {}), place.state == RunState::Running || place.state == RunState::Draining ||
                                               place.state == RunState::Stopping);
}

TEST(RunLifecycle, EveryEventInEveryStateFollowsTheTable) {
    for (const Place& place : kPlaces) {
        for (const Event event : {Begin, Drain, Halt, Abandon, Note, End}) {
            if (event == Begin && place.state != RunState::Starting) continue;
            const Change change = change_at(place, event);
            SCOPED_TRACE(std::string(place.name) + " --" + kEventNames[static_cast<std::size_t>(event)] + "--> " +
                         change.place);
            RecordedRun run;
            RunLifecycle life(run);
            for (const Event step : place.way) take(life, step);
            expect_at(life, place);
            run.asked.clear();
            take(life, event);
            expect_at(life, place_named(change.place));
            EXPECT_EQ(run.asked, change.asked);
            EXPECT_EQ(life.error() != nullptr, event == Note);
        }
    }
}

TEST(RunLifecycle, AContinuedRunEndsOnceConsumersHaveLeft) {
    RecordedRun run;
    RunLifecycle life(run);
    life.begin();
    life.note_delivery_end();
    EXPECT_STREQ(life.word(), "ending");
    life.stop(StopMode::Drain, "a test");
    EXPECT_STREQ(life.word(), "draining");
}

// A far timeout: a wait that does not end earlier fails the test.
const TimePoint kFar = kSteadyClock.now() + std::chrono::hours(24);

TEST(RunLifecycle, WaitsForTheEndOfDelivery) {
    RecordedRun run;
    RunLifecycle life(run);
    life.begin();
    life.stop(StopMode::Drain, "a test");
    EXPECT_FALSE(life.wait_for_delivery(kSteadyClock.now())) << "the timeout has passed";
    std::thread broker([&] { life.note_delivery_end(); });
    EXPECT_TRUE(life.wait_for_delivery(kFar));
    broker.join();
    EXPECT_TRUE(life.wait_for_delivery(std::nullopt));
    EXPECT_EQ(life.state(), RunState::Draining) << "the waiting caller ends the run";
}

TEST(RunLifecycle, DoesNotWaitForTheDeliveryOfAHaltedRun) {
    for (const StopMode mode : {StopMode::Halt, StopMode::Abandon}) {
        RecordedRun run;
        RunLifecycle life(run);
        life.begin();
        std::thread part([&] { life.stop(mode, "a test"); });
        EXPECT_FALSE(life.wait_for_delivery(std::nullopt));
        part.join();
        life.note_delivery_end();
        EXPECT_TRUE(life.wait_for_delivery(std::nullopt)) << "delivery has ended, too";
    }
}

TEST(RunLifecycle, DrainsThenStopsOnce) {
    RecordedRun run;
    std::string events;
    RunLifecycle life(run, [&](StopMode mode, const std::string& why) {
        events += why + (mode == StopMode::Drain ? " drains, " : " stops, ");
    });
    life.stop(StopMode::Drain, "the first");
    life.stop(StopMode::Drain, "the second");
    life.begin();
    life.stop(StopMode::Halt, "the third");
    life.stop(StopMode::Abandon, "the fourth");
    life.end();
    EXPECT_EQ(events, "the first drains, the third stops, ");
}

TEST(RunLifecycle, KeepsTheFirstError) {
    RecordedRun run;
    RunLifecycle life(run);
    EXPECT_EQ(life.failure(), "");
    EXPECT_EQ(life.error(), nullptr);
    life.note(std::make_exception_ptr(Error(ErrorKind::CannotWrite, "the first")));
    life.note(std::make_exception_ptr(std::runtime_error("the second")));
    EXPECT_EQ(life.failure(), "the first");
    EXPECT_THROW(std::rethrow_exception(life.error()), Error);
    EXPECT_EQ(life.state(), RunState::Starting) << "an error alone does not stop the run";
}

ErrorKind refusal_of(const RunLifecycle& life) {
    try {
        life.require_not_stopped();
    } catch (const Error& problem) {
        return problem.kind();
    }
    return ErrorKind::None;
}

TEST(RunLifecycle, AStartEndsWithAStopOrAnError) {
    RecordedRun run;
    RunLifecycle life(run);
    EXPECT_EQ(refusal_of(life), ErrorKind::None);
    life.stop(StopMode::Drain, "a test");
    EXPECT_EQ(refusal_of(life), ErrorKind::Interrupted);
    life.note(std::make_exception_ptr(Error(ErrorKind::CannotWrite, "a full disk")));
    EXPECT_EQ(refusal_of(life), ErrorKind::CannotWrite);
}

// end() returns only after other threads' use of the parts, and prevents further use.
TEST(RunLifecycle, TheEndWaitsForUsersOfItsParts) {
    RecordedRun run;
    RunLifecycle life(run);
    life.begin();
    constexpr int kTurns = 10'000;  // gives an end without a wait time to come first
    std::atomic<bool> in_use{false}, ending_now{false}, ended{false};
    bool ended_meanwhile = true;
    std::thread user([&] {
        life.while_under_way([&] {
            in_use = true;
            in_use.notify_all();
            ending_now.wait(false);
            for (int turn = 0; turn < kTurns && !ended; ++turn) std::this_thread::yield();
            ended_meanwhile = ended;
        });
    });
    in_use.wait(false);
    std::thread ending([&] {
        ending_now = true;
        ending_now.notify_all();
        life.end();
        ended = true;
    });
    user.join();
    ending.join();
    EXPECT_FALSE(ended_meanwhile);
    EXPECT_FALSE(life.while_under_way([] { FAIL() << "a part is used after the end"; }));
}

}  // namespace
}  // namespace offramp
