#include "consumer/worker/consumer_program.hpp"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "common/app/settings/declared_setting.hpp"
#include "common/app/settings/exit_code.hpp"
#include "common/base/clock.hpp"
#include "common/base/error.hpp"
#include "common/base/scarcity.hpp"
#include "common/base/trace.hpp"
#include "common/base/unique_fd.hpp"
#include "common/dead_letters/payload_file.hpp"
#include "common/json/json_text.hpp"
#include "common/shm/run_objects.hpp"
#include "consumer/session/consumer_run.hpp"
#include "consumer/session/run_search.hpp"

namespace offramp {
namespace {

// The run's producer may have to load a model before consumers can attach.
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

using nlohmann::json;

void process_alone(SlabProcessor& processor, const SlabContents& slab) {
    processor.process(
        slab, [] {}, [] { return true; });
}

// Samples by their index in the payload: the first, and the end (exclusive).
struct Part {
    std::uint32_t first = 0;
    std::uint32_t end = 0;

    auto operator<=>(const Part&) const = default;
};

void to_json(json& value, const Part& part) { value = {part.first, part.end}; }

// The record of parts: read when the program starts, then appended to.
//
// Owns: the file's descriptor. Thread: one. Blocks: on the file. Errors: SystemError when the report cannot be written.
class RetryReport {
  public:
    enum class Outcome { Done, Failed };

    explicit RetryReport(const std::string& path)
        : path_(path), file_(::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)) {
        if (!file_) throw cannot_write();
        std::ifstream earlier(path);
        for (std::string line; std::getline(earlier, line);) read(line);
        append("");  // ends a line that a death cut short
    }

    std::optional<Outcome> outcome_of(Part part) const {
        const auto known = outcomes_.find(part);
        return known == outcomes_.end() ? std::nullopt : std::optional(known->second);
    }
    void trying(Part part) { append(json_text({{"trying", part}})); }
    void done(Part part) { append(json_text({{"done", part}})); }
    void failed(Part part, const std::string& why) { append(json_text({{"failed", part}, {"why", why}})); }

  private:
    void read(const std::string& line) {
        const json entry = parse_json_or_discard(line);
        if (!entry.is_object()) return;  // a death cut this line short
        for (const char* const word : {"trying", "done", "failed"}) {
            const auto found = entry.find(word);
            if (found == entry.end() || !found->is_array() || found->size() != 2) continue;
            const Part part{(*found)[0].get<std::uint32_t>(), (*found)[1].get<std::uint32_t>()};
            outcomes_[part] = std::string_view(word) == "done" ? Outcome::Done : Outcome::Failed;
        }
    }
    void append(const std::string& text) const {
        const std::string line = text + "\n";
        if (::write(file_.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size())) throw cannot_write();
    }
    SystemError cannot_write() const {
        return {"writing the report of retries " + path_, errno, "Make room there", ErrorKind::CannotWrite};
    }

    std::string path_;
    UniqueFd file_;
    std::map<Part, Outcome> outcomes_;
};

// The slab with only the samples of one part. The others become empty rows, which processors skip.
SlabContents only(SlabContents slab, Part part) {
    for (std::uint32_t index = 0; index < slab.samples.size(); ++index)
        if (index < part.first || index >= part.end) slab.samples[index].empty = true;
    return slab;
}

bool has_samples(const SlabContents& slab, Part part) {
    for (std::uint32_t index = part.first; index < part.end; ++index)
        if (!slab.samples[index].empty) return true;
    return false;
}

RetryReport::Outcome try_part(const SlabContents& slab, Part part, SlabProcessor& processor, RetryReport& report) {
    report.trying(part);
    try {
        process_alone(processor, only(slab, part));
    } catch (const SlabFailed& problem) {
        report.failed(part, problem.what());
        return RetryReport::Outcome::Failed;
    }
    report.done(part);
    return RetryReport::Outcome::Done;
}

void settle(const SlabContents& slab, Part part, SlabProcessor& processor, RetryReport& report) {
    if (!has_samples(slab, part)) return;
    const auto known = report.outcome_of(part);
    const auto outcome = known ? *known : try_part(slab, part, processor, report);
    if (outcome == RetryReport::Outcome::Done || part.end - part.first == 1) return;
    const std::uint32_t middle = part.first + (part.end - part.first) / 2;
    settle(slab, {part.first, middle}, processor, report);
    settle(slab, {middle, part.end}, processor, report);
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
    // This consumer has dropped its lock: the sweep has an effect only for the run's last process.
    if (sweep_run(endpoint.names) && end.launcher_gone)
        spdlog::info("this was the last process of run '{}': its shared memory is removed", endpoint.names.run_id);
    return to_int(end.error);
}

int exit_code_of(const std::function<int()>& body) noexcept {
    // Writes to plain standard error before logging starts, and later in the user's chosen form.
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

int retry_payload(const std::string& path, SlabProcessor& processor) {
    const PayloadFile payload(path);
    const SlabContents& slab = payload.slab();
    spdlog::info("processing {} again: {} samples, from batch {}", path, slab.samples.size(),
                 slab.batches.empty() ? 0 : slab.batches.front().batch);
    process_alone(processor, slab);
    return to_int(ExitCode::Ok);
}

int retry_samples(const std::string& path, const std::string& report, SlabProcessor& processor) {
    const PayloadFile payload(path);
    const SlabContents& slab = payload.slab();
    RetryReport retry_report(report);
    settle(slab, {0, static_cast<std::uint32_t>(slab.samples.size())}, processor, retry_report);
    return to_int(ExitCode::Ok);
}

}  // namespace offramp
