#include "tests/bench/messages/bare_channel.hpp"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <string>
#include <thread>
#include <zmq.hpp>

#include "common/base/clock.hpp"
#include "common/base/error.hpp"

namespace offramp {
namespace {

// A message holds its send time, an answer the time it took; an empty message ends the receiver.
void receive_and_answer(const std::string& address) {
    zmq::context_t context;
    zmq::socket_t dealer(context, zmq::socket_type::dealer);
    dealer.connect(address);
    const std::uint64_t hello = 0;
    dealer.send(zmq::buffer(&hello, sizeof hello), zmq::send_flags::none);
    while (true) {
        zmq::message_t message;
        if (!dealer.recv(message)) continue;
        const std::uint64_t came_ns = now_ns();
        if (message.size() != sizeof came_ns) return;
        const std::uint64_t took_ns = came_ns - *message.data<std::uint64_t>();
        dealer.send(zmq::buffer(&took_ns, sizeof took_ns), zmq::send_flags::none);
    }
}

class Receiver {
  public:
    explicit Receiver(const std::string& address) : pid_(::fork()) {
        if (pid_ < 0) throw SystemError("fork", errno);
        if (pid_ != 0) return;
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        receive_and_answer(address);
        ::_exit(0);
    }
    ~Receiver() {
        ::kill(pid_, SIGKILL);
        ::waitpid(pid_, nullptr, 0);
    }
    Receiver(const Receiver&) = delete;
    Receiver& operator=(const Receiver&) = delete;

  private:
    pid_t pid_;
};

}  // namespace

std::vector<std::uint64_t> bare_channel_latencies_ns(std::chrono::duration<double> length,
                                                     std::chrono::duration<double> pause) {
    std::string folder = std::filesystem::temp_directory_path() / "offramp-bench-XXXXXX";
    if (::mkdtemp(folder.data()) == nullptr) throw SystemError("making the folder " + folder, errno);
    const std::string address = "ipc://" + folder + "/work";
    std::vector<std::uint64_t> latencies;
    {
        const Receiver receiver(address);  // before this process has libzmq's threads
        zmq::context_t context;
        zmq::socket_t router(context, zmq::socket_type::router);
        router.bind(address);
        const auto next = [&](zmq::message_t& identity) {
            zmq::message_t answer;
            (void)router.recv(identity);
            (void)router.recv(answer);
            return *answer.data<std::uint64_t>();
        };
        zmq::message_t identity;
        next(identity);
        for (const std::uint64_t end_ns = now_ns() + static_cast<std::uint64_t>(length.count() * 1e9);
             now_ns() < end_ns;) {
            std::this_thread::sleep_for(pause);
            const std::uint64_t sent_ns = now_ns();
            router.send(identity, zmq::send_flags::sndmore);
            router.send(zmq::buffer(&sent_ns, sizeof sent_ns), zmq::send_flags::none);
            latencies.push_back(next(identity));
        }
    }
    std::filesystem::remove_all(folder);
    return latencies;
}

}  // namespace offramp
