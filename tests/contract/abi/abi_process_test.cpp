// The library leaves its host process alone, and that process's children inherit nothing of it.

#include <gmock/gmock.h>
#include <pthread.h>
#include <sys/wait.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <offramp/consumer.hpp>
#include <offramp/egress.hpp>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/contract/abi/abi_world.hpp"
#include "tests/support/pipe.hpp"
#include "tests/support/sanitizers.hpp"

namespace offramp::test {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

// The signal mask `field` of each thread of this process, by thread id; bit 0 is signal 1. Signals from 32 on are left
// out: the C library reserves some when the first thread starts.
std::map<std::string, std::uint32_t> signals_by_thread(const std::string& field) {
    std::map<std::string, std::uint32_t> found;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
        std::ifstream status(task.path() / "status");
        for (std::string line; std::getline(status, line);)
            if (line.starts_with(field + ":"))
                found[task.path().filename()] =
                    static_cast<std::uint32_t>(std::stoull(line.substr(field.size() + 1), nullptr, 16) & 0x7fff'ffff);
    }
    return found;
}

class InAProcess : public AbiWorld {
  protected:
    EgressOptions small_run() const {
        return {.run_dir = run_dir_,
                .tensors = {{"scores", float32, {4, 3}}, {"ids", uint8, {4, 2}}},
                .device = "cpu",
                .name = "made up"};
    }
    void submit(Egress& egress, const std::string& first_key) {
        std::vector<std::string> keys{first_key};
        for (std::uint32_t row = 1; row < kRows; ++row) keys.push_back(first_key + std::to_string(row));
        egress.submit({made_.scores.data(), made_.ids.data()}, kRows, nullptr, nullptr, keys);
    }
    nlohmann::json status() const {
        std::ifstream file(run_dir_ + "/status.json");
        return nlohmann::json::parse(file, nullptr, false);
    }

    const Batch made_ = batch(0);
};

TEST_F(InAProcess, ALivingChildHoldsNothingOfARun) {
    const Pipe over;
    auto egress = std::make_unique<Egress>(small_run());
    const pid_t child = ::fork();
    if (child == 0) {
        over.wait();
        ::_exit(0);
    }
    egress.reset();
    EXPECT_NO_THROW(Egress{small_run()}) << "its directory is free";
    for (const auto& entry : std::filesystem::directory_iterator("/dev/shm"))
        EXPECT_THAT(entry.path().filename().string(),
                    testing::Not(HasSubstr("egress-" + std::to_string(::getpid()) + "-")));
    over.notify();
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

// The targets of a process's links in /proc/PROCESS/fd: "socket:[4711]", "/dev/shm/offramp-...".
std::multiset<std::string> opened_by(const std::string& process) {
    std::multiset<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/" + process + "/fd")) {
        std::error_code gone;  // the descriptor of this listing
        const auto target = std::filesystem::read_symlink(entry.path(), gone);
        if (!gone) found.insert(target);
    }
    return found;
}

std::vector<std::string> mapped_by(const std::string& process) {
    std::vector<std::string> found;
    std::ifstream maps("/proc/" + process + "/maps");
    for (std::string line; std::getline(maps, line);)
        if (line.find("/dev/shm/") != std::string::npos) found.push_back(line);
    return found;
}

// Descriptors that a child may inherit: they hold no resource, signal no run's life and give no access.
bool may_be_inherited(const std::string& opened) {
    for (const char* harmless : {"anon_inode:[eventfd]", "anon_inode:[pidfd]", "anon_inode:[timerfd]"})
        if (opened == harmless) return true;
    return false;
}

TEST_F(InAProcess, AForkedChildInheritsNothingOfAnyHandle) {
    const Pipe forked, over;
    const auto before = opened_by("self");
    Egress egress(small_run());
    Consumer consumer(run_dir_);
    std::atomic<bool> works{false};
    const Pipe go_on;
    std::thread consumes([&] {
        consumer.for_each([&](const Slab&) {
            works = true;
            go_on.wait();
        });
    });
    submit(egress, "a");
    while (!works) ::usleep(1000);
    ASSERT_FALSE(mapped_by("self").empty());
    const pid_t child = ::fork();
    if (child == 0) {
        forked.notify();
        over.wait();
        ::_exit(0);
    }
    forked.wait();
    auto inherited = opened_by(std::to_string(child));
    for (const std::string& hosts : before) {
        const auto found = inherited.find(hosts);
        if (found != inherited.end()) inherited.erase(found);
    }
    for (const std::string& opened : inherited)
        EXPECT_TRUE(may_be_inherited(opened) || opened.starts_with("pipe:")) << opened;  // the pipes are the test's
    EXPECT_THAT(mapped_by(std::to_string(child)), testing::IsEmpty());
    go_on.notify();
    EXPECT_TRUE(egress.drain());
    consumes.join();
    over.notify();
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

// A process that has forked is killed: the child, which sleeps on, keeps no process out.
TEST_F(InAProcess, ADeadProcessesChildLeavesTheDirectoryFree) {
    const Pipe opened;
    Pipe over;
    const pid_t parent = ::fork();
    if (parent == 0) {
        over.close_write_end();  // a failed test ends the child, too
        Egress egress(small_run());
        if (::fork() == 0) {
            opened.notify();  // from the child: its copies are closed once its fork() has returned
            over.wait();
            ::_exit(0);
        }
        for (;;) ::pause();
    }
    opened.wait();
    ::kill(parent, SIGKILL);
    ASSERT_EQ(::waitpid(parent, nullptr, 0), parent);
    {
        Egress egress(small_run());
        submit(egress, "a");
        std::thread consumer([&] { Consumer(run_dir_).for_each([](const Slab&) {}); });
        EXPECT_TRUE(egress.drain());
        consumer.join();
    }
    over.notify();
}

// A child of a process with a run opens complete runs and consumers.
TEST_F(InAProcess, AForkedChildMayOpenRunsAndConsumers) {
    if (has_address_sanitizer()) GTEST_SKIP() << "skipped: a child of a process with threads may hang in the sanitizer";
    Egress egress(small_run());
    const pid_t child = ::fork();
    if (child == 0) {
        int code = 1;
        try {
            EgressOptions options = small_run();
            options.run_dir = folder_ + "/childs";
            Egress own(options);
            submit(own, "child");
            std::thread consumer([&] { Consumer(folder_ + "/childs").for_each([](const Slab&) {}); });
            code = own.drain() ? 0 : 2;
            consumer.join();
        } catch (const std::exception& problem) {
            std::fprintf(stderr, "%s\n", problem.what());
        }
        ::_exit(code);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    submit(egress, "parent");
    std::thread consumer([&] { Consumer(run_dir_).for_each([](const Slab&) {}); });
    EXPECT_TRUE(egress.drain());
    consumer.join();
}

struct CallsBack {
    offramp_egress* egress = nullptr;
    std::atomic<int> code{-1};
    offramp_error error{};
};

// Signals belong to the program: its own threads receive and handle them.
TEST_F(InAProcess, LibraryThreadsTakeNoSignalsAndHandlersStay) {
    const auto own = signals_by_thread("SigBlk");
    const auto caught = signals_by_thread("SigCgt").begin()->second,
               ignored = signals_by_thread("SigIgn").begin()->second;
    Egress egress(small_run());
    submit(egress, "a");
    std::size_t others = 0;
    for (const auto& [thread, blocked] : signals_by_thread("SigBlk")) {
        if (own.contains(thread)) {
            EXPECT_EQ(blocked, own.at(thread)) << "a thread of the program";
            continue;
        }
        ++others;
        for (int number = 1; number < 32; ++number) {
            if (number == SIGKILL || number == SIGSTOP) continue;
            EXPECT_EQ(blocked >> (number - 1) & 1, 1U) << "thread " << thread << " accepts signal " << number;
        }
    }
    EXPECT_GE(others, 3U) << "threads for copies, completions and the broker";
    std::thread consumer([&] { Consumer(run_dir_).for_each([](const Slab&) {}); });
    EXPECT_TRUE(egress.drain());
    consumer.join();
    EXPECT_EQ(signals_by_thread("SigCgt").begin()->second, caught);
    EXPECT_EQ(signals_by_thread("SigIgn").begin()->second, ignored);
}

TEST_F(InAProcess, RefusesACallFromARelease) {
    offramp_egress* egress = nullptr;
    ASSERT_EQ(offramp_egress_open(&options_, &egress, &error_), OFFRAMP_OK) << error_.text;
    CallsBack calls;
    calls.egress = egress;
    const void* const tensors[] = {made_.scores.data(), made_.ids.data()};
    offramp_batch batch{};
    batch.size = sizeof batch;
    batch.tensors = tensors;
    batch.tensor_count = 2;
    batch.rows = kRows;
    batch.owner = &calls;
    batch.release = [](void* owner) {
        auto& back = *static_cast<CallsBack*>(owner);
        back.code = offramp_egress_close(back.egress, &back.error);
    };
    ASSERT_EQ(offramp_egress_submit(egress, &batch, &error_), OFFRAMP_OK) << error_.text;
    std::thread consumer([&] { Consumer(run_dir_).for_each([](const Slab&) {}); });
    EXPECT_EQ(offramp_egress_drain(egress, 60, &error_), OFFRAMP_OK) << error_.text;
    consumer.join();
    EXPECT_EQ(calls.code, OFFRAMP_BAD_ARGUMENT);
    EXPECT_THAT(calls.error.text, HasSubstr("`release` called the library"));
    EXPECT_EQ(offramp_egress_close(egress, &error_), OFFRAMP_OK) << error_.text;
}

TEST_F(InAProcess, ATextIsCutBetweenCharacters) {
    for (const std::string before : {"/", "/x"}) {
        std::string folder = before;
        while (folder.size() < sizeof error_.text) folder += "\xc3\xa4";
        options_.run_dir = folder.c_str();
        offramp_egress* egress = nullptr;
        EXPECT_EQ(offramp_egress_open(&options_, &egress, &error_), OFFRAMP_BAD_ARGUMENT);
        const std::string text = error_.text;
        EXPECT_GE(text.size(), sizeof error_.text - 2) << "the text fills its space";
        EXPECT_THAT(text, EndsWith("\xc3\xa4")) << "the last character is whole";
    }
}

TEST_F(InAProcess, TheCallersThreadKeepsItsName) {
    std::array<char, 16> name{};
    Egress egress(small_run());
    submit(egress, "a");
    std::thread consumer([&] {
        ::pthread_setname_np(::pthread_self(), "the-caller's");
        Consumer(run_dir_).for_each([&](const Slab&) { ::pthread_getname_np(::pthread_self(), name.data(), 16); });
    });
    EXPECT_TRUE(egress.drain());
    consumer.join();
    EXPECT_STREQ(name.data(), "the-caller's");
}

// The failure is counted although the process lives on.
TEST_F(InAProcess, AFailedFunctionsSlabGoesToAnotherConsumer) {
    // Forked before the run has threads: with GCC 12's AddressSanitizer, a consumer's allocation in the child could
    // wait for a lock that one of them held.
    const Pipe begun, failed, over;
    const pid_t child = ::fork();
    if (child == 0) {
        begun.wait();
        int code = -1;
        try {
            Consumer(run_dir_).for_each([](const Slab&) { throw std::domain_error("mine"); });
        } catch (const std::domain_error&) {
            code = 0;
        }
        failed.notify();
        over.wait();
        ::_exit(code);
    }
    Egress egress(small_run());
    submit(egress, "held");
    begun.notify();
    failed.wait();
    std::string got;
    std::thread consumer(
        [&] { Consumer(run_dir_).for_each([&](const Slab& slab) { got = std::string(slab.key(0)); }); });
    EXPECT_TRUE(egress.drain());
    consumer.join();
    EXPECT_EQ(got, "held");
    EXPECT_EQ(egress.stats().samples_dead_lettered, 0U);
    over.notify();
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST_F(InAProcess, KillsAStalledConsumerWhenAsked) {
    for (const bool kill_stalled : {false, true}) {
        SCOPED_TRACE(kill_stalled);
        const Pipe begun, hangs;
        const pid_t child = ::fork();  // before the run has threads, as above
        if (child == 0) {
            begun.wait();
            Consumer(run_dir_).for_each([&](const Slab&) {
                hangs.notify();
                for (;;) ::pause();
            });
        }
        EgressOptions options = small_run();
        options.visibility_timeout_seconds = 0.2;
        options.max_failures = 1;
        options.kill_stalled = kill_stalled;
        Egress egress(options);
        submit(egress, "hangs");
        begun.notify();
        hangs.wait();
        if (!kill_stalled) {
            while (egress.stats().stalled == 0) ::usleep(1000);
            EXPECT_FALSE(egress.drain(std::chrono::duration<double>(0)));
            EXPECT_EQ(egress.stats().consumers, 1U);
            EXPECT_EQ(status()["dead_lettered_samples"], 0);
            ::kill(child, SIGKILL);
        }
        EXPECT_TRUE(egress.drain(std::chrono::seconds(60)));
        EXPECT_EQ(egress.stats().samples_dead_lettered, kRows);
        EXPECT_EQ(egress.stats().stalled, 0U);
        int status = 0;
        ASSERT_EQ(::waitpid(child, &status, 0), child);
        EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    }
}

TEST_F(InAProcess, ARunReportsItselfInItsDirectory) {
    {
        Egress egress(small_run());
        EXPECT_EQ(status()["state"], "running");
        EXPECT_EQ(status()["pid"], ::getpid());
        EXPECT_EQ(status()["name"], "made up");
        submit(egress, "a");
        EXPECT_FALSE(egress.drain(std::chrono::duration<double>(0)));
        EXPECT_EQ(status()["state"], "draining");
        EXPECT_EQ(status()["submitted_samples"], kRows);
        std::thread consumer([&] { Consumer(run_dir_).for_each([](const Slab&) {}); });
        EXPECT_TRUE(egress.drain());
        consumer.join();
        EXPECT_EQ(status()["state"], "ended");
        EXPECT_EQ(status()["released_samples"], kRows);
    }
    EXPECT_EQ(status()["state"], "ended") << "a drained run is not abandoned";
    {
        Egress egress(small_run());
        submit(egress, "a");
    }
    EXPECT_EQ(status()["state"], "abandoned");
    EXPECT_EQ(status()["released_samples"], 0);
}

}  // namespace
}  // namespace offramp::test
