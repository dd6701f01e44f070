#include <dirent.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <zmq.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>

#include "common/base/error.hpp"
#include "common/transport/peer_connections.hpp"
#include "tests/contract/ports/ports_contract.hpp"
#include "tests/support/sanitizers.hpp"
#include "tests/unit/shm/child_process.hpp"
#include "tests/unit/transport/temporary_folder.hpp"

namespace offramp {
namespace {

using namespace support;
using namespace std::chrono_literals;

class RunDirectoryPlace final : public PortsPlace {
  public:
    std::unique_ptr<BrokerPort> broker() override { return make_zmq_broker_port(endpoint()); }
    std::unique_ptr<ConsumerPort> consumer() override { return make_zmq_consumer_port(endpoint()); }
    PeerCredentials credentials() const override { return {.pid = ::getpid(), .uid = ::geteuid(), .gid = ::getegid()}; }
    Endpoint endpoint() const { return {folder_.path(), {"r", 1}, 1, 1}; }

  private:
    TemporaryRunFolder folder_;
};

INSTANTIATE_TEST_SUITE_P(Zmq, PortsContract,
                         ::testing::Values(PortsImplementation{"run_directory",
                                                               [] { return std::make_unique<RunDirectoryPlace>(); }}));

// Raw libzmq sockets, for messages that our ports never send.
class RawSocket {
  public:
    RawSocket(int type, const std::string& address) : context_(::zmq_ctx_new()), socket_(::zmq_socket(context_, type)) {
        const int linger = 0;
        ::zmq_setsockopt(socket_, ZMQ_LINGER, &linger, sizeof linger);
        EXPECT_EQ(::zmq_connect(socket_, address.c_str()), 0);
    }
    RawSocket(const RawSocket&) = delete;
    RawSocket& operator=(const RawSocket&) = delete;
    ~RawSocket() {
        ::zmq_close(socket_);
        ::zmq_ctx_term(context_);
    }
    void send(const std::vector<std::string>& frames) {
        for (std::size_t i = 0; i < frames.size(); ++i)
            EXPECT_GE(::zmq_send(socket_, frames[i].data(), frames[i].size(), i + 1 < frames.size() ? ZMQ_SNDMORE : 0),
                      0);
    }

  private:
    void* context_;
    void* socket_;
};

mode_t mode_of(const std::string& path) {
    struct stat found = {};
    return ::lstat(path.c_str(), &found) == 0 ? found.st_mode & 07777 : 0;
}

// A process forked before any libzmq thread exists here sends its identity.
TEST(ZmqPorts, IdentifyAnotherProcessThroughTheKernel) {
    const RunDirectoryPlace place;
    const bool is_root = ::geteuid() == 0;
    // For a user other than root, the sockets are opened to a group and the folder to all.
    ASSERT_EQ(::chmod(place.endpoint().run_dir.c_str(), is_root ? 0711 : 0700), 0);
    const uid_t uid = is_root ? 1234 : ::geteuid();
    const gid_t gid = is_root ? 4321 : ::getegid();
    ChildProcess child([&](int words) {
        if (is_root && (::setgroups(0, nullptr) != 0 || ::setgid(gid) != 0 || ::setuid(uid) != 0)) return 1;
        const auto port = make_zmq_consumer_port(place.endpoint());
        port->send_work(bytes_of("hello"));
        port->send_release(bytes_of("release"));
        ChildProcess::report(words);
        wait_to_be_killed();
        return 0;
    });
    const auto broker = make_zmq_broker_port(place.endpoint(), true);
    if (is_root) {
        ASSERT_EQ(::chown((place.endpoint().run_dir + "/live/work-00000002.sock").c_str(), 0, gid), 0);
        ASSERT_EQ(::chown((place.endpoint().run_dir + "/live/free-00000002.sock").c_str(), 0, gid), 0);
    }
    ASSERT_TRUE(child.reported());
    const auto hello = next_work(*broker);
    for (const auto& inbound : {hello, next_release(*broker)}) {
        ASSERT_TRUE(inbound);
        EXPECT_EQ(inbound->credentials.pid, child.pid());
        EXPECT_EQ(inbound->credentials.uid, uid);
        EXPECT_EQ(inbound->credentials.gid, gid);
    }
    child.kill();
    child.wait();
    const auto end = std::chrono::steady_clock::now() + 30s;
    SendOutcome outcome = SendOutcome::Sent;
    while ((outcome = broker->send(hello->peer, bytes_of("x"))) != SendOutcome::PeerGone) {
        ASSERT_LT(std::chrono::steady_clock::now(), end);
        broker->wait({}, 10ms);
    }
}

TEST(ZmqPorts, CreateSocketsForTheirOwnerOnly) {
    const RunDirectoryPlace place;
    const mode_t umask_before = ::umask(0022);
    for (const bool for_group : {false, true}) {
        const auto broker = make_zmq_broker_port(place.endpoint(), for_group);
        EXPECT_EQ(mode_of(place.endpoint().run_dir + "/live/work-00000002.sock"), for_group ? 0660U : 0600U);
        EXPECT_EQ(mode_of(place.endpoint().run_dir + "/live/free-00000002.sock"), for_group ? 0660U : 0600U);
        EXPECT_EQ(::umask(0022), 0022U) << "the process's umask is unchanged";
    }
    ::umask(umask_before);
}

TEST(ZmqPorts, LeaveNoSocketBehind) {
    const RunDirectoryPlace place;
    make_zmq_broker_port(place.endpoint()).reset();
    EXPECT_EQ(mode_of(place.endpoint().run_dir + "/live/work-00000002.sock"), 0U);
    EXPECT_EQ(mode_of(place.endpoint().run_dir + "/live/free-00000002.sock"), 0U);
}

TEST(ZmqPorts, TakeOverTheSocketsOfADeadBroker) {
    RunDirectoryPlace place;
    ChildProcess dead([&](int words) {
        const auto broker = place.broker();
        ChildProcess::report(words);
        wait_to_be_killed();
        return 0;
    });
    ASSERT_TRUE(dead.reported());
    try {
        place.broker();
        FAIL() << "two processes serve one run directory";
    } catch (const SystemError& problem) {
        EXPECT_EQ(problem.kind(), ErrorKind::RunInUse);
    }
    dead.kill();
    dead.wait();
    EXPECT_NE(mode_of(place.endpoint().run_dir + "/live/work-00000002.sock"), 0U) << "the dead broker left it";
    const auto broker = place.broker();
    const auto met = meet(place, *broker);
    EXPECT_EQ(broker->send(met.peer, bytes_of("x")), SendOutcome::Sent);
}

TEST(ZmqPorts, ASuccessorReplacesTheDeadBrokersSockets) {
    RunDirectoryPlace place;
    ChildProcess dead([&](int words) {
        const auto broker = place.broker();
        ChildProcess::report(words);
        wait_to_be_killed();
        return 0;
    });
    ASSERT_TRUE(dead.reported());
    // it reconnects by itself to any listener at the dead one's address
    const auto consumer = place.consumer();
    dead.kill();
    dead.wait();
    ASSERT_TRUE(consumer->send_release(bytes_of("meant for the dead")));
    Endpoint next = place.endpoint();
    next.epoch = 2;
    const std::string precious = next.run_dir + "/live/work-of-mine.sock";
    std::ofstream(precious) << "no socket";
    const auto successor = make_zmq_broker_port(next);
    for (const char* name : {"/live/work-00000002.sock", "/live/free-00000002.sock"})
        EXPECT_EQ(mode_of(next.run_dir + name), 0U) << name;
    EXPECT_NE(mode_of(next.run_dir + "/live/free-00000003.sock"), 0U);
    EXPECT_NE(mode_of(precious), 0U);
}

TEST(ZmqPorts, DoNotReplaceAFile) {
    RunDirectoryPlace place;
    const std::string path = place.endpoint().run_dir + "/live/free-00000002.sock";
    std::ofstream(path) << "precious";
    EXPECT_THROW(place.broker(), SystemError);
    EXPECT_NE(mode_of(path), 0U);
    EXPECT_EQ(mode_of(place.endpoint().run_dir + "/live/work-00000002.sock"), 0U)
        << "the sockets bound before are removed";
    ::unlink(path.c_str());
    EXPECT_NO_THROW(place.broker());
}

TEST(ZmqPorts, DetectThatASocketWasTakenOver) {
    RunDirectoryPlace place;
    const auto broker = place.broker();
    const std::string path = place.endpoint().run_dir + "/live/free-00000002.sock";
    ASSERT_EQ(::unlink(path.c_str()), 0);
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    const UniqueFd thief(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::bind(thief.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    ASSERT_EQ(::listen(thief.get(), 1), 0);
    const auto wait_until_seen = [&] {
        const auto end = std::chrono::steady_clock::now() + 60s;
        while (std::chrono::steady_clock::now() < end) broker->wait({}, 1h);
    };
    EXPECT_THROW(wait_until_seen(), SystemError);
}

TEST(ZmqPorts, ReceiveAMultipartMessageAsAnEmptyOne) {
    RunDirectoryPlace place;
    const auto broker = place.broker();
    RawSocket dealer(ZMQ_DEALER, place.endpoint().work_address());
    RawSocket push(ZMQ_PUSH, place.endpoint().free_list_address());
    dealer.send({"a", "b", "", std::string(5000, 'c')});
    dealer.send({"", "like a REQ socket's"});
    dealer.send({"single"});
    push.send({"a", "b"});
    push.send({""});
    push.send({"single"});
    const auto first = next_work(*broker);
    ASSERT_TRUE(first);
    EXPECT_TRUE(first->bytes.empty());
    EXPECT_EQ(first->credentials.pid, ::getpid());
    EXPECT_FALSE(first->peer.empty());
    EXPECT_TRUE(next_work(*broker).value().bytes.empty());
    EXPECT_EQ(text_of(next_work(*broker).value().bytes), "single");
    EXPECT_TRUE(next_release(*broker).value().bytes.empty());
    EXPECT_TRUE(next_release(*broker).value().bytes.empty());
    EXPECT_EQ(text_of(next_release(*broker).value().bytes), "single");
}

TEST(ZmqPorts, SurvivePeersThatDoNotSpeakZmq) {
    RunDirectoryPlace place;
    const auto broker = place.broker();
    for (const char* name : {"/live/work-00000002.sock", "/live/free-00000002.sock"}) {
        const std::string path = place.endpoint().run_dir + name;
        sockaddr_un address = {};
        address.sun_family = AF_UNIX;
        path.copy(address.sun_path, sizeof address.sun_path - 1);
        const UniqueFd stranger(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
        ASSERT_EQ(::connect(stranger.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
        const std::string garbage(3000, '\xff');
        // The broker may close immediately, so failing to write the rest is not an error.
        [[maybe_unused]] const auto sent = ::send(stranger.get(), garbage.data(), garbage.size(), MSG_NOSIGNAL);
    }
    const auto met = meet(place, *broker);
    EXPECT_EQ(broker->send(met.peer, bytes_of("x")), SendOutcome::Sent);
    EXPECT_EQ(text_of(next(*met.port).value()), "x");
}

TEST(ZmqPorts, LimitConnectionsDuringAFlood) {
    RunDirectoryPlace place;
    const auto broker = place.broker();
    const auto met = meet(place, *broker);
    // Never received: the port always has messages, as in a flood, and never sleeps.
    ASSERT_TRUE(met.port->send_work(bytes_of("unread")));
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    (place.endpoint().run_dir + "/live/work-00000002.sock").copy(address.sun_path, sizeof address.sun_path - 1);
    std::vector<UniqueFd> connections;
    std::vector<pollfd> polled;
    const auto end = std::chrono::steady_clock::now() + 30s;
    while (!broker->may_have_messages()) ASSERT_LT(std::chrono::steady_clock::now(), end);
    for (std::size_t i = 0; i < ConnectionLimit::kMostOfOneProcess + 8; ++i) {
        connections.emplace_back(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
        const int fd = connections.back().get();
        ASSERT_EQ(::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
        polled.push_back({fd, POLLRDHUP, 0});
    }
    while (::poll(polled.data(), polled.size(), 0) == 0) {
        ASSERT_LT(std::chrono::steady_clock::now(), end) << "no connection was refused";
        broker->wait({}, 10ms);
    }
}

// This process's open descriptors.
std::set<int> descriptors() {
    std::set<int> found;
    DIR* const folder = ::opendir("/proc/self/fd");
    while (const dirent* entry = ::readdir(folder)) found.insert(std::atoi(entry->d_name));
    found.erase(::dirfd(folder));
    ::closedir(folder);
    return found;
}

TEST(ZmqPorts, AreNotInheritedAndAChildMayOpenPorts) {
    if (test::has_address_sanitizer())
        GTEST_SKIP() << "skipped: a child of a process with threads may hang in the sanitizer";
    RunDirectoryPlace place, childs;
    const auto before = descriptors();
    const auto broker = place.broker();
    const auto met = meet(place, *broker);
    ASSERT_GT(descriptors().size(), before.size() + 8) << "contexts, sockets and connections";
    ChildProcess child([&](int words) {
        auto found = descriptors();
        found.erase(words);
        if (found != before) return 1;
        const auto own = childs.broker();
        const auto met_there = meet(childs, *own);
        if (own->send(met_there.peer, bytes_of("x")) != SendOutcome::Sent) return 2;
        if (text_of(next(*met_there.port).value()) != "x") return 3;
        ChildProcess grandchild([&](int its_words) {
            auto left = descriptors();
            left.erase(words);
            left.erase(its_words);
            return left == before ? 0 : 1;
        });
        return grandchild.wait();
    });
    EXPECT_EQ(child.wait(), 0);
    EXPECT_EQ(broker->send(met.peer, bytes_of("x")), SendOutcome::Sent) << "the parent's ports still work";
    EXPECT_EQ(text_of(next(*met.port).value()), "x");
}

TEST(ZmqPorts, CloseWhatTheyOpened) {
    const RunDirectoryPlace warm_up;
    make_zmq_broker_port(warm_up.endpoint()).reset();
    const auto before = descriptors();
    for (int i = 0; i < 3; ++i) {
        RunDirectoryPlace place;
        const auto broker = place.broker();
        meet(place, *broker);
    }
    EXPECT_EQ(descriptors(), before);
}

// Contexts that the program makes with the same libzmq work and are inherited as usual.
TEST(ZmqPorts, DoNotTouchTheProgramsContexts) {
    RunDirectoryPlace place;
    const auto broker = place.broker();
    const std::string address = "ipc://" + place.endpoint().run_dir + "/live/programs.sock";
    const auto before = descriptors();
    void* const context = ::zmq_ctx_new();
    void* const socket = ::zmq_socket(context, ZMQ_PULL);
    ASSERT_EQ(::zmq_bind(socket, address.c_str()), 0);
    RawSocket push(ZMQ_PUSH, address);
    push.send({"hello"});
    char text[8] = {};
    ASSERT_EQ(::zmq_recv(socket, text, sizeof text, 0), 5);
    const auto with_the_programs = descriptors();
    ASSERT_GT(with_the_programs.size(), before.size());
    std::set<int> programs;
    std::ranges::set_difference(with_the_programs, before, std::inserter(programs, programs.end()));
    ChildProcess child([&](int) { return std::ranges::includes(descriptors(), programs) ? 0 : 1; });
    EXPECT_EQ(child.wait(), 0);
    ::zmq_close(socket);
    ::zmq_ctx_term(context);
}

// Leaves the process only a few free descriptors, and restores the limit at the end.
class FewDescriptors {
  public:
    explicit FewDescriptors(std::size_t free) {
        ::getrlimit(RLIMIT_NOFILE, &before_);
        const auto open = descriptors();
        rlimit lowered = before_;
        lowered.rlim_cur = static_cast<rlim_t>(*open.rbegin()) + 1;
        // Free numbers in between are occupied, too.
        for (int fd = 0; fd < *open.rbegin(); ++fd)
            if (!open.contains(fd)) taken_.emplace_back(::dup2(*open.begin(), fd));
        lowered.rlim_cur += free;
        ::setrlimit(RLIMIT_NOFILE, &lowered);
    }
    FewDescriptors(const FewDescriptors&) = delete;
    FewDescriptors& operator=(const FewDescriptors&) = delete;
    ~FewDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }

  private:
    rlimit before_{};
    std::vector<UniqueFd> taken_;
};

TEST(ZmqPorts, ReportMissingDescriptorsAndLeaveNoneOpen) {
    if (test::has_address_sanitizer())
        GTEST_SKIP() << "skipped: UBSan needs a descriptor for each look at an object's type";
    RunDirectoryPlace place;
    const auto before = descriptors();
    for (const bool broker : {true, false}) {
        std::size_t refused = 0;
        for (std::size_t free = 0; free < 80; ++free) {
            const FewDescriptors few(free);
            try {
                if (broker)
                    place.broker();
                else
                    place.consumer();
            } catch (const SystemError& problem) {
                EXPECT_EQ(problem.errno_value(), EMFILE) << problem.what();
                EXPECT_NE(std::string(problem.what()).find("ulimit -n"), std::string::npos) << problem.what();
                ++refused;
            }
        }
        EXPECT_GT(refused, 4U);
        EXPECT_LT(refused, 60U);
    }
    EXPECT_EQ(descriptors(), before);
}

// A consumer connects to a process without a free descriptor: others are served, and it is admitted later.
TEST(ZmqPorts, LetAConsumerWaitWhileDescriptorsAreUsedUp) {
    if (test::has_address_sanitizer())
        GTEST_SKIP() << "skipped: a child of a process with threads may hang in the sanitizer";
    for (std::size_t free = 0; free < 4; ++free) {
        SCOPED_TRACE(free);
        RunDirectoryPlace place;
        const auto broker = place.broker();
        const auto met = meet(place, *broker);
        // In another process, whose descriptors do not count here.
        ChildProcess late([&](int words) {
            const auto port = place.consumer();
            port->send_work(bytes_of("late"));
            port->send_release(bytes_of("late"));
            ChildProcess::report(words);
            wait_to_be_killed();
            return 0;
        });
        {
            std::optional<FewDescriptors> few(free);
            ASSERT_TRUE(late.reported());
            for (int i = 0; i < 20; ++i) {
                EXPECT_EQ(broker->send(met.peer, bytes_of("x")), SendOutcome::Sent);
                EXPECT_EQ(text_of(next(*met.port).value()), "x");
                ASSERT_TRUE(met.port->send_work(bytes_of("early")));
                const auto work = next_work(*broker);
                ASSERT_TRUE(work);
                if (text_of(work->bytes) == "early") continue;
                EXPECT_GE(free, 1U);
                EXPECT_EQ(text_of(next_work(*broker).value().bytes), "early");
            }
        }
        if (free == 0) {
            EXPECT_EQ(text_of(next_work(*broker).value().bytes), "late");
        }
        EXPECT_EQ(text_of(next_release(*broker).value().bytes), "late");
    }
}

TEST(ZmqPorts, RefuseAnUnusableRunDirectory) {
    Endpoint endpoint{"/tmp/" + std::string(200, 'x'), {"r", 1}, 1, 1};
    EXPECT_THROW(make_zmq_broker_port(endpoint), ConfigError);
    EXPECT_THROW(make_zmq_consumer_port(endpoint), ConfigError);
    endpoint.run_dir = "/no/such/folder";
    EXPECT_THROW(make_zmq_broker_port(endpoint), SystemError);
}

}  // namespace
}  // namespace offramp
