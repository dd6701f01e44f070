#include "consumer/session/run_search.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "common/base/error.hpp"
#include "common/base/unique_fd.hpp"
#include "tests/support/error_of.hpp"
#include "tests/support/scratch_folder.hpp"

namespace offramp {
namespace {

constexpr std::chrono::hours kForEver{1};

class RunSearchTest : public ::testing::Test {
  protected:
    RunSearchTest() {
        std::filesystem::create_directory(run_dir_ + "/live");
        int ends[2];
        EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
        lifeline_ = UniqueFd(ends[0]);
        launcher_ = UniqueFd(ends[1]);
        EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
        signals_ = UniqueFd(ends[0]);
        signaller_ = UniqueFd(ends[1]);
        fds_ = {.lifeline = lifeline_.get(), .signals = signals_.get()};
    }

    void publish(std::uint64_t producer_pid, std::uint64_t nonce = 99) const {
        Endpoint{.run_dir = run_dir_,
                 .names = {.run_id = "search-test", .nonce = nonce},
                 .producer_pid = producer_pid,
                 .epoch = 1}
            .publish();
    }
    static std::uint64_t dead_pid() {
        const pid_t child = ::fork();
        if (child == 0) ::_exit(0);
        ::waitpid(child, nullptr, 0);
        return static_cast<std::uint64_t>(child);
    }
    std::optional<Endpoint> search(std::chrono::nanoseconds patience,
                                   std::optional<std::uint64_t> nonce = std::nullopt) const {
        return find_run(run_dir_, fds_, clock_, patience, nonce);
    }
    std::string failure(std::chrono::nanoseconds patience, std::optional<std::uint64_t> nonce = std::nullopt) const {
        return test::error_of([&] { search(patience, nonce); }, ErrorKind::NoSuchRun);
    }

    test::ScratchFolder folder_;
    std::string run_dir_ = folder_.path();
    UniqueFd lifeline_, launcher_, signals_, signaller_;
    WatchedFds fds_;
    SteadyClock clock_;
};

TEST_F(RunSearchTest, FindsALiveRun) {
    publish(static_cast<std::uint64_t>(::getpid()));
    const auto found = search({});
    ASSERT_TRUE(found);
    EXPECT_EQ(found->names.nonce, 99U);
}

TEST_F(RunSearchTest, WaitsForARunThatDoesNotExistYet) {
    std::thread producer([&] { publish(static_cast<std::uint64_t>(::getpid())); });
    const auto found = search(kForEver);
    producer.join();
    EXPECT_TRUE(found);
}

TEST_F(RunSearchTest, ReportsTheDirectoryOfAMissingRun) {
    const std::string text = failure({});
    EXPECT_NE(text.find(run_dir_), std::string::npos) << text;
    EXPECT_NE(text.find("there is no file 'endpoint'"), std::string::npos) << text;
    EXPECT_EQ(text.find("is over"), std::string::npos) << text;
    for (const std::string status : {"", "{}", "[]", R"({"state": 5})", R"({"state": "starting"})"}) {
        std::ofstream(run_dir_ + "/status.json") << status;
        EXPECT_EQ(failure({}).find("is over"), std::string::npos) << status;
    }
    for (const std::string state : {"ended", "abandoned", "failed"}) {
        std::ofstream(run_dir_ + "/status.json") << R"({"state": ")" + state + R"("})";
        EXPECT_NE(failure({}).find("the run there is over"), std::string::npos) << state;
    }
}

TEST_F(RunSearchTest, IgnoresADeadProducersRun) {
    const std::uint64_t pid = dead_pid();
    publish(pid);
    const std::string text = failure({});
    EXPECT_NE(text.find("process " + std::to_string(pid) + ", is dead"), std::string::npos) << text;
}

// It listens, but its pid does not exist here.
TEST_F(RunSearchTest, TreatsAForeignPidNamespacesProducerAsAlive) {
    const std::uint64_t pid = dead_pid();
    publish(pid);
    const std::string path = Endpoint::read(run_dir_)->work_address().substr(std::string("ipc://").size());
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    UniqueFd door(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::bind(door.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    ASSERT_EQ(::listen(door.get(), 8), 0);
    EXPECT_THAT(test::error_of([&] { search(kForEver); }, ErrorKind::NotPermitted),
                testing::HasSubstr("process " + std::to_string(pid) + ", is in another pid namespace"));
    door.reset();  // closes the socket
    EXPECT_NE(failure({}).find("is dead"), std::string::npos);
}

TEST_F(RunSearchTest, TheLaunchersEndEndsTheWait) {
    launcher_.reset();
    EXPECT_NE(failure(kForEver).find("the process that started this consumer has ended"), std::string::npos);
}

TEST_F(RunSearchTest, ASignalEndsTheWait) {
    ASSERT_EQ(::write(signaller_.get(), "x", 1), 1);
    EXPECT_FALSE(search(kForEver));
}

TEST_F(RunSearchTest, FindsTheWantedRun) {
    publish(static_cast<std::uint64_t>(::getpid()));
    EXPECT_TRUE(search({}, 99));
}

TEST_F(RunSearchTest, RefusesAnotherRunAndNamesBoth) {
    publish(static_cast<std::uint64_t>(::getpid()), 0xbb);
    const std::string text = failure(kForEver, 0xaa);
    EXPECT_NE(text.find("nonce 00000000000000aa, is over"), std::string::npos) << text;
    EXPECT_NE(text.find("'search-test', nonce 00000000000000bb"), std::string::npos) << text;
}

TEST_F(RunSearchTest, DoesNotWaitForAnotherRunsDeadProducer) {
    publish(dead_pid(), 0xbb);
    EXPECT_NE(failure(kForEver, 0xaa).find("is over"), std::string::npos);
}

TEST_F(RunSearchTest, TheWantedRunIsOverWithoutItsEndpoint) { EXPECT_FALSE(search(kForEver, 99)); }

TEST_F(RunSearchTest, WaitsForASuccessorOfTheWantedRunsProducer) {
    publish(dead_pid());
    const std::string text = failure({}, 99);
    EXPECT_NE(text.find("is dead"), std::string::npos) << text;
    std::thread successor([&] { publish(static_cast<std::uint64_t>(::getpid())); });
    const auto found = search(kForEver, 99);
    successor.join();
    EXPECT_TRUE(found);
}

}  // namespace
}  // namespace offramp
