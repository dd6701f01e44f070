#include "consumer/worker/consumer_program.hpp"

#include <fcntl.h>
#include <spdlog/spdlog.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <exception>
#include <optional>
#include <string>

#include "common/app/settings/declared_setting.hpp"
#include "common/base/clock.hpp"
#include "common/base/error.hpp"
#include "common/base/scarcity.hpp"
#include "common/base/trace.hpp"
#include "common/shm/run_objects.hpp"
#include "consumer/session/consumer_run.hpp"
#include "consumer/session/run_search.hpp"

namespace offramp {
namespace {

// A model may have to be loaded before the run can be attached to.
constexpr std::chrono::seconds kStartPatience{300};

void check_lifeline(int fd) {
    if (fd == -1) return;
    if (fd < 0 || ::fcntl(fd, F_SETFD, FD_CLOEXEC) != 0)
        throw ConfigError("--lifeline-fd is " + std::to_string(fd) + ", which is not an open file",
                          "The launcher sets it; leave it out when starting a consumer by hand");
}

ConsumerOptions options_of(const RunConfig& config, std::uint64_t work, const EndSignals& signals) {
    return {.window = config.window,
            .work = work,
            .producer_wait = std::chrono::nanoseconds(static_cast<std::int64_t>(config.producer_wait_seconds * 1e9)),
            .memory_per_slab = makes_memory_per_slab(config.catalogue),
            .fds = {.lifeline = config.lifeline_fd, .signals = signals.fd()}};
}

}  // namespace

std::optional<Endpoint> wait_for_run(const RunConfig& options, std::optional<std::uint64_t> nonce,
                                     const EndSignals& signals) {
    if (options.run_dir.empty())
        throw ConfigError("no --run-dir", "Give the directory of the run that this consumer belongs to");
    check_lifeline(options.lifeline_fd);
    const SteadyClock clock;
    return find_run(options.run_dir, {.lifeline = options.lifeline_fd, .signals = signals.fd()}, clock, kStartPatience,
                    nonce);
}

int serve_run(const RunConfig& config, std::uint64_t work, const Endpoint& endpoint, const EndSignals& signals,
              const std::function<SlabProcessor&()>& make) {
    const MakeOnEntry make_here = [&make](std::uint32_t consumer_index) -> SlabProcessor& {
        name_this_thread(("offramp-c" + std::to_string(consumer_index)).c_str());
        return make();
    };
    const auto end = consume_run(endpoint, options_of(config, work, signals), make_here);
    // The own lock is dropped by now: the sweep does something only for the last process of the run.
    if (sweep_run(endpoint.names) && end.launcher_gone)
        spdlog::info("this was the last process of run '{}': its shared memory is removed", endpoint.names.run_id);
    return to_int(end.error);
}

int exit_code_of(const std::function<int()>& body) noexcept {
    // Before logging has been started, plain standard error; afterwards in the form that the user chose.
    const auto say = [](const std::string& text) {
        if (spdlog::default_logger()->name().empty())
            std::fprintf(stderr, "offramp-consumer: %s\n", text.c_str());
        else
            spdlog::error("{}", text);
    };
    try {
        try {
            return body();
        } catch (...) {
            std::rethrow_exception(with_limits_named(std::current_exception()));
        }
    } catch (const Error& problem) {
        say(problem.what());
        return to_int(problem.kind());
    } catch (const std::exception& problem) {
        say(std::string("unexpected: ") + problem.what());
        return to_int(ErrorKind::Internal);
    } catch (...) {
        say("unexpected: an exception of an unknown kind");
        return to_int(ErrorKind::Internal);
    }
}

}  // namespace offramp
