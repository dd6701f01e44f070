#include "consumer/session/run_search.hpp"

#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>

#include "common/base/error.hpp"
#include "common/base/process_watch.hpp"
#include "common/base/unique_fd.hpp"
#include "common/json/json_text.hpp"
#include "common/shm/run_files.hpp"

namespace offramp {
namespace {

constexpr int kLookEveryMs = 50;

void wait_for_any(const WatchedFds& fds) {
    std::array<pollfd, 2> entries{{{fds.signals, POLLIN, 0}, {fds.lifeline, POLLIN, 0}}};  // -1 is skipped
    ::poll(entries.data(), entries.size(), kLookEveryMs);
}

// A producer that recovers its predecessor's run replaces the endpoint with its own, under the same nonce. Only the end
// of a run removes the endpoint.
bool is_over(const std::string& run_dir, const std::optional<Endpoint>& endpoint, std::uint64_t nonce) {
    if (!endpoint) {
        spdlog::info("the run in '{}' that this consumer was started for is over", run_dir);
        return true;
    }
    if (endpoint->names.nonce == nonce) return false;
    throw Error(ErrorKind::NoSuchRun,
                fmt::format("the run in '{}' that this consumer was started for, nonce {}, is over: the run there now "
                            "is '{}', nonce {}",
                            run_dir, RunNames{.run_id = {}, .nonce = nonce}.nonce_text(), endpoint->names.run_id,
                            endpoint->names.nonce_text()),
                "Start consumers for that one");
}

// A run publishes its state before consumers can find it.
bool run_has_ended(const std::string& run_dir) {
    std::ifstream file(run_dir + "/" + run_files::kStatus);
    const auto status = parse_json_or_discard(std::string(std::istreambuf_iterator<char>(file), {}));
    const auto state = status.is_object() ? status.find("state") : status.end();
    return state != status.end() && state->is_string() && run_files::is_end(state->get_ref<const std::string&>());
}

// The process that listens on the run's socket, by its pid in this namespace, or 0 if it has none. Nothing if no
// process listens.
std::optional<pid_t> listener_of(const Endpoint& endpoint) {
    constexpr std::string_view kScheme = "ipc://";
    const std::string path = endpoint.work_address().substr(kScheme.size());
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path) return std::nullopt;
    std::memcpy(address.sun_path, path.data(), path.size());
    const UniqueFd door(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    ucred listener{};
    socklen_t size = sizeof listener;
    if (!door || ::connect(door.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
        ::getsockopt(door.get(), SOL_SOCKET, SO_PEERCRED, &listener, &size) != 0)
        return std::nullopt;
    return listener.pid;
}

// Call this if no process has the endpoint's pid. A live producer with another pid cannot be watched.
void require_same_pid_namespace(const std::string& run_dir, const Endpoint& endpoint) {
    const std::optional<pid_t> listener = listener_of(endpoint);
    if (!listener || static_cast<std::uint64_t>(*listener) == endpoint.producer_pid) return;
    // A new producer in the directory removes the endpoint before it listens there.
    const auto now = Endpoint::read(run_dir);
    if (!now || now->names.nonce != endpoint.names.nonce || now->epoch != endpoint.epoch) return;
    throw Error(ErrorKind::NotPermitted,
                "the producer of the run in '" + run_dir + "', process " + std::to_string(endpoint.producer_pid) +
                    ", is in another pid namespace and cannot be watched from here",
                "Share the pid namespace (the pid option of docker run, shareProcessNamespace of a pod)");
}

std::string describe_found(const std::string& run_dir, const std::optional<Endpoint>& endpoint) {
    if (endpoint)
        return "the producer of the run there, process " + std::to_string(endpoint->producer_pid) + ", is dead";
    return std::string("there is no file 'endpoint'") +
           (run_has_ended(run_dir) ? " any more: the run there is over" : "");
}

}  // namespace

std::optional<Endpoint> find_run(const std::string& run_dir, const WatchedFds& fds, const Clock& clock,
                                 std::chrono::nanoseconds patience, std::optional<std::uint64_t> nonce) {
    const TimePoint give_up_at = clock.now() + patience;
    for (bool first = true;; first = false) {
        if (has_input(fds.signals)) return std::nullopt;
        const auto endpoint = Endpoint::read(run_dir);
        if (endpoint) endpoint->require_no_groups();
        if (nonce && is_over(run_dir, endpoint, *nonce)) return std::nullopt;
        if (endpoint && process_exists(endpoint->producer_pid)) return endpoint;
        if (endpoint) require_same_pid_namespace(run_dir, *endpoint);

        const auto waiting = [&] {
            return "waiting for a run in '" + run_dir + "': " + describe_found(run_dir, endpoint);
        };
        if (hung_up(fds.lifeline))
            throw Error(ErrorKind::NoSuchRun, waiting() + ", and the process that started this consumer has ended");
        if (clock.now() >= give_up_at)
            throw Error(ErrorKind::NoSuchRun, waiting(),
                        "Start the producer with the same run directory, or check the path");
        if (first) spdlog::info("{}", waiting());
        wait_for_any(fds);
    }
}

}  // namespace offramp
