#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

// Acts at failpoints (common/base/failpoint.hpp) for tests: preloaded (LD_PRELOAD) into the programs as users run them.
//   OFFRAMP_FAILPOINT=NAME#N:ACTION[,NAME#N:ACTION...]   the N-th time (from 1) that a process passes NAME
//     kill, segv, abort   dies of SIGKILL, SIGSEGV, SIGABRT        exit          exits with 3, without cleanup
//     stop                SIGSTOP: this thread waits until the test continues it
//     kill-parent         SIGKILL for the parent process
//     throw               the step throws a std::runtime_error that names it
//   OFFRAMP_FAILPOINT_ONCE=FOLDER  each failpoint acts once, in the process that creates FOLDER/NAME with its pid
//   OFFRAMP_FAILPOINT_SEEN=FILE    each pass appends the failpoint's name to FILE
// A wrong setting exits with 64, so that no test passes because nothing happened.
namespace {

struct Order {
    std::string name;
    long nth = 1;
    std::string action;
    std::atomic<long> seen{0};

    Order(std::string_view text) {
        const std::size_t colon = text.rfind(':');
        const std::size_t hash = text.find('#');
        if (colon == std::string_view::npos) bad(text);
        action = text.substr(colon + 1);
        name = text.substr(0, std::min(hash, colon));
        if (hash < colon) nth = std::strtol(std::string(text.substr(hash + 1, colon - hash - 1)).c_str(), nullptr, 10);
        static constexpr std::string_view kKnown[] = {"kill", "segv", "abort", "exit", "stop", "kill-parent", "throw"};
        bool known = false;
        for (const std::string_view candidate : kKnown) known = known || candidate == action;
        if (!known || name.empty() || nth < 1) bad(text);
    }

    [[noreturn]] static void bad(std::string_view text) {
        std::fprintf(stderr, "OFFRAMP_FAILPOINT: '%.*s' is not NAME#N:ACTION\n", static_cast<int>(text.size()),
                     text.data());
        std::_Exit(64);
    }
};

std::vector<Order*> read_orders() {
    std::vector<Order*> orders;  // never freed: failpoints are passed until the process ends
    const char* const setting = std::getenv("OFFRAMP_FAILPOINT");
    std::string_view rest = setting == nullptr ? "" : setting;
    while (!rest.empty()) {
        const std::size_t comma = std::min(rest.find(','), rest.size());
        orders.push_back(new Order(rest.substr(0, comma)));
        rest.remove_prefix(std::min(comma + 1, rest.size()));
    }
    return orders;
}

const std::vector<Order*> kOrders = read_orders();

bool may_act(const char* name) {
    const char* const folder = std::getenv("OFFRAMP_FAILPOINT_ONCE");
    if (folder == nullptr) return true;
    const int file = ::open((std::string(folder) + "/" + name).c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file < 0) return false;
    const std::string line = std::to_string(::getpid()) + "\n";
    [[maybe_unused]] const auto written = ::write(file, line.data(), line.size());
    ::close(file);
    return true;
}

void act(const std::string& action, const char* name) {
    if (action == "throw") throw std::runtime_error(std::string("the failpoint ") + name);
    if (action == "exit") std::_Exit(3);
    if (action == "kill-parent") {
        ::kill(::getppid(), SIGKILL);
        return;
    }
    if (action == "stop") {
        ::raise(SIGSTOP);
        return;
    }
    const int number = action == "kill" ? SIGKILL : action == "segv" ? SIGSEGV : SIGABRT;
    ::signal(number, SIG_DFL);
    ::kill(::getpid(), number);
    // The signal goes to the process and may arrive late, so wait here.
    for (;;) ::pause();
}

void note_seen(const char* name) {
    static const char* const path = std::getenv("OFFRAMP_FAILPOINT_SEEN");
    if (path == nullptr) return;
    const std::string line = std::string(name) + "\n";
    const int file = ::open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (file < 0) return;
    [[maybe_unused]] const auto written = ::write(file, line.data(), line.size());
    ::close(file);
}

}  // namespace

extern "C" void offramp_failpoint_reached(const char* name) {
    note_seen(name);
    for (Order* const order : kOrders)
        if (order->name == name && ++order->seen == order->nth && may_act(name)) act(order->action, name);
}
