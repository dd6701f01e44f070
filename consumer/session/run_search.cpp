#include "consumer/session/run_search.hpp"

#include <poll.h>
#include <spdlog/spdlog.h>

#include <array>
#include <fstream>
#include <iterator>
#include <string>

#include "common/base/error.hpp"
#include "common/base/process_watch.hpp"
#include "common/base/readiness.hpp"
#include "common/json/json_text.hpp"
#include "common/shm/run_files.hpp"

namespace offramp {
namespace {

constexpr int kLookEveryMs = 50;

void wait_for_any(const WatchedFds& fds) {
    std::array<pollfd, 2> entries{{{fds.signals, POLLIN, 0}, {fds.lifeline, POLLIN, 0}}};  // -1 is skipped
    ::poll(entries.data(), entries.size(), kLookEveryMs);
}

// A producer that recovers its predecessor's run publishes it under the same nonce, in the place of that one's
// endpoint; only the end of a run takes that away.
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

// A run that begins tells its state before it can be met.
bool says_it_is_over(const std::string& run_dir) {
    std::ifstream file(run_dir + "/" + run_files::kStatus);
    const auto status = parse_json_or_discard(std::string(std::istreambuf_iterator<char>(file), {}));
    const auto state = status.is_object() ? status.find("state") : status.end();
    return state != status.end() && state->is_string() && run_files::is_end(state->get_ref<const std::string&>());
}

std::string what_is_found(const std::string& run_dir, const std::optional<Endpoint>& endpoint) {
    if (endpoint)
        return "the producer of the run there, process " + std::to_string(endpoint->producer_pid) + ", is dead";
    return std::string("there is no file 'endpoint'") +
           (says_it_is_over(run_dir) ? " any more: the run there is over" : "");
}

}  // namespace

std::optional<Endpoint> find_run(const std::string& run_dir, const WatchedFds& fds, const Clock& clock,
                                 std::chrono::nanoseconds patience, std::optional<std::uint64_t> nonce) {
    const TimePoint give_up_at = clock.now() + patience;
    for (bool first = true;; first = false) {
        if (has_input(fds.signals)) return std::nullopt;
        const auto endpoint = Endpoint::read(run_dir);
        if (nonce && is_over(run_dir, endpoint, *nonce)) return std::nullopt;
        if (endpoint && process_exists(endpoint->producer_pid)) return endpoint;

        const auto waiting = [&] {
            return "waiting for a run in '" + run_dir + "': " + what_is_found(run_dir, endpoint);
        };
        if (hung_up(fds.lifeline))
            throw Error(ErrorKind::NoSuchRun, waiting() + ", and the process that started this consumer is gone");
        if (clock.now() >= give_up_at)
            throw Error(ErrorKind::NoSuchRun, waiting(),
                        "Start the producer with the same run directory, or check the path");
        if (first) spdlog::info("{}", waiting());
        wait_for_any(fds);
    }
}

}  // namespace offramp
