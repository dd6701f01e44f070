// The consumer side of the C ABI: passes slabs as C structs, and turns every exception into a code.

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <offramp.h>
#include "common/abi/guarded.hpp"
#include "common/abi/live_handles.hpp"
#include "common/base/clock.hpp"
#include "common/base/error.hpp"
#include "common/base/process_watch.hpp"
#include "common/base/unique_fd.hpp"
#include "common/base/utf8.hpp"
#include "common/shm/run_objects.hpp"
#include "common/transport/endpoint.hpp"
#include "consumer/session/consumer_run.hpp"
#include "consumer/session/run_search.hpp"
#include "consumer/session/slab_for_c.hpp"
#include "consumer/session/slab_processor.hpp"

namespace offramp::abi {
namespace {

constexpr std::size_t kLeastOptions = offsetof(offramp_consumer_options, window);
constexpr std::chrono::nanoseconds kWait = std::chrono::seconds(10);

constinit LiveHandles open_consumers;

// Errors: ConfigError for a name that no group can have, or none of the run has.
std::string known_group(const std::string& run_dir, const std::string& group) {
    if (!RunNames::is_group_name(group))
        throw ConfigError("'" + printable(group) + "' is not a group's name",
                          "Give 1 to 16 lower-case letters, digits and '-', a letter first");
    if (const auto run = Endpoint::read(run_dir)) run->require_group(group);
    return group;
}

}  // namespace
}  // namespace offramp::abi

struct offramp_consumer final : offramp::SlabProcessor {
    std::string run_dir;
    offramp::ConsumerOptions options;
    std::chrono::nanoseconds wait_for_run{};
    bool takes_variable = false;
    offramp::UniqueFd stop;  // an eventfd
    pid_t process_id = ::getpid();
    std::atomic<bool> running{false};
    // Set while a slab is processed.
    offramp_process function = nullptr;
    void* user = nullptr;
    const offramp::Progress* progress = nullptr;
    const offramp::StillCurrent* still_current = nullptr;
    std::string why;      // the reason that the function reported
    std::string failed;   // the error that ended the consumer, if its function caused it
    std::string refused;  // why the function does not get the run's slabs
    offramp::SlabForC slab;

    void process(const offramp::SlabContents& contents, const offramp::Progress& at_work,
                 const offramp::StillCurrent& current) override {
        if (contents.varies() && !takes_variable) {
            refused =
                "the run's samples differ in shape, and this consumer does not take them. Read "
                "offramp_tensor.rows, and set takes_variable in offramp_consumer_options";
            // The slab goes back without a failure.
            throw offramp::Error(offramp::ErrorKind::SinkUnavailable, refused);
        }
        const struct AtWork {
            offramp_consumer& of;
            ~AtWork() { of.progress = nullptr, of.still_current = nullptr; }
        } at_its_end{*this};
        progress = &at_work;
        still_current = &current;
        why.clear();
        const std::int32_t code = function(user, &slab.of(contents));
        if (code == OFFRAMP_OK) return;
        if (code == OFFRAMP_FAILED) throw offramp::SlabFailed(why.empty() ? "the consumer's function failed" : why);
        if (code == OFFRAMP_REJECTED)
            throw offramp::SlabFailed::rejected(why.empty() ? "the consumer's function rejected it" : why);
        if (code == OFFRAMP_RETRY)
            throw offramp::Error(offramp::ErrorKind::SinkUnavailable,
                                 "the consumer's function asked to try again later");
        failed = "the consumer's function returned " + std::to_string(code) +
                 ", which counts as a failure of its slab" + (why.empty() ? "" : ": " + why);
        throw offramp::SlabFailed::at_the_end(why.empty() ? failed : why);
    }
};

namespace offramp::abi {
namespace {

constexpr HandleTexts kRefusals{
    .null = "the consumer is null. Give the one that offramp_consumer_open() made",
    .not_open = "the consumer was closed, or was never opened by this library. Open one",
    .other_process = "the consumer belongs to the process that opened it, and this is a child of it. Open one here"};

std::int32_t on(offramp_consumer* consumer, offramp_error* error, const std::function<std::int32_t()>& body) noexcept {
    return guarded_on(consumer, open_consumers, kRefusals, error, body);
}

std::int32_t run(offramp_consumer& consumer) {
    const SteadyClock clock;
    const WatchedFds fds{.signals = consumer.stop.get()};
    const auto endpoint = find_run(consumer.run_dir, fds, clock, consumer.wait_for_run);
    if (!endpoint) return OFFRAMP_STOPPED;
    consumer.options.fds = fds;
    const MakeOnEntry itself = [&consumer](std::uint32_t) -> SlabProcessor& { return consumer; };
    const ConsumerLoop::End end = consume_run(*endpoint, consumer.options, itself);
    sweep_run(endpoint->names);
    if (end.error != ErrorKind::None) return code_of(end.error);
    return has_input(consumer.stop.get()) ? OFFRAMP_STOPPED : OFFRAMP_OK;
}

std::string text_of(std::int32_t code) {
    switch (code) {
        case OFFRAMP_STOPPED:
            return "offramp_consumer_stop() was called";
        case OFFRAMP_RETRY:
            return "the consumer's function asked to try again later: its slab was returned. Run the consumer again "
                   "when its sink is available";
        case OFFRAMP_PRODUCER_GONE:
            return "the producer is dead. Start it again, then this consumer";
        default:
            return "the consumer ended";
    }
}

}  // namespace
}  // namespace offramp::abi

using namespace offramp;       // NOLINT: of this file's functions alone
using namespace offramp::abi;  // NOLINT

extern "C" {

std::int32_t offramp_consumer_open(const offramp_consumer_options* options, offramp_consumer** consumer,
                                   offramp_error* error) {
    if (consumer == nullptr)
        return refused(error, OFFRAMP_BAD_ARGUMENT,
                       "the address for the consumer is null. Give the address of an offramp_consumer*");
    *consumer = nullptr;
    return guarded(error, [&] {
        quiet_log();
        const auto given = known_part(options, kLeastOptions, "offramp_consumer_options");
        if (given.run_dir == nullptr || *given.run_dir == '\0')
            throw ConfigError("no run directory was given", "Give the one that the producer has");
        auto opened = std::make_unique<offramp_consumer>();
        opened->run_dir = std::filesystem::absolute(given.run_dir).lexically_normal().string();
        if (given.group != nullptr && *given.group != '\0')
            opened->run_dir = Endpoint::group_dir(opened->run_dir, known_group(opened->run_dir, given.group));
        opened->options.window = given.window;
        opened->takes_variable = given.takes_variable != 0;
        opened->wait_for_run = seconds_or(given.wait_for_run_seconds, kWait, "wait_for_run_seconds");
        opened->stop = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
        if (!opened->stop) throw SystemError("making an eventfd", errno);
        open_consumers.add(opened.get());
        *consumer = opened.release();
        return std::int32_t{OFFRAMP_OK};
    });
}

std::int32_t offramp_consumer_run(offramp_consumer* consumer, offramp_process process, void* user,
                                  offramp_error* error) {
    return on(consumer, error, [&] {
        if (process == nullptr) throw ConfigError("the consumer's function is null", "Give one that takes a slab");
        if (consumer->running.exchange(true))
            throw ConfigError("this consumer runs already, on another thread", "Open one for each thread");
        struct Running {
            std::atomic<bool>& flag;
            ~Running() { flag = false; }
        } const running{consumer->running};
        consumer->function = process;
        consumer->user = user;
        consumer->failed.clear();
        consumer->refused.clear();
        const std::int32_t code = run(*consumer);
        if (!consumer->refused.empty()) return refused(error, OFFRAMP_BAD_ARGUMENT, consumer->refused);
        if (!consumer->failed.empty()) return refused(error, OFFRAMP_CALLBACK_FAILED, consumer->failed);
        return code == OFFRAMP_OK ? code : refused(error, code, text_of(code));
    });
}

std::int32_t offramp_consumer_progress(offramp_consumer* consumer) {
    return on(consumer, nullptr, [&] {
        if (consumer->progress == nullptr) return std::int32_t{OFFRAMP_BAD_ARGUMENT};
        (*consumer->progress)();
        return std::int32_t{OFFRAMP_OK};
    });
}

std::int32_t offramp_consumer_still_current(offramp_consumer* consumer) {
    bool current = false;
    on(consumer, nullptr, [&] {
        current = consumer->still_current != nullptr && (*consumer->still_current)();
        return std::int32_t{OFFRAMP_OK};
    });
    return current ? 1 : 0;
}

std::int32_t offramp_consumer_explain(offramp_consumer* consumer, const char* why) {
    return on(consumer, nullptr, [&] {
        if (consumer->progress == nullptr || why == nullptr) return std::int32_t{OFFRAMP_BAD_ARGUMENT};
        consumer->why = why;
        return std::int32_t{OFFRAMP_OK};
    });
}

std::int32_t offramp_consumer_stop(offramp_consumer* consumer) {
    if (consumer == nullptr || !open_consumers.has(consumer)) return OFFRAMP_BAD_ARGUMENT;
    if (consumer->process_id != ::getpid()) return OFFRAMP_WRONG_PROCESS;  // a forked child shares the eventfd
    const int before = errno;                                              // a signal handler may call this
    const std::uint64_t one = 1;
    const bool signalled = ::write(consumer->stop.get(), &one, sizeof one) == sizeof one || errno == EAGAIN;
    errno = before;
    return signalled ? OFFRAMP_OK : OFFRAMP_SYSTEM;
}

std::int32_t offramp_consumer_close(offramp_consumer* consumer, offramp_error* error) {
    if (consumer == nullptr) return OFFRAMP_OK;
    return on(consumer, error, [&] {
        if (consumer->running)
            throw ConfigError("the consumer runs",
                              "Call offramp_consumer_stop(), and close it when offramp_consumer_run() has returned");
        if (!open_consumers.remove(consumer)) return refused(error, OFFRAMP_BAD_ARGUMENT, kRefusals.not_open);
        delete consumer;
        return std::int32_t{OFFRAMP_OK};
    });
}

}  // extern "C"
