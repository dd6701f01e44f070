#include "consumer/worker/retry_program.hpp"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "common/app/settings/exit_code.hpp"
#include "common/base/error.hpp"
#include "common/base/unique_fd.hpp"
#include "common/dead_letters/payload_file.hpp"
#include "common/json/json_text.hpp"

namespace offramp {
namespace {

using nlohmann::json;

void process_alone(SlabProcessor& processor, const SlabContents& slab) {
    processor.process(
        slab, [] {}, [] { return true; });
}

// Samples by their index in the payload: the first, and the one behind the last.
struct Part {
    std::uint32_t first = 0;
    std::uint32_t end = 0;

    auto operator<=>(const Part&) const = default;
};

void to_json(json& value, const Part& part) { value = {part.first, part.end}; }

// The record of parts: read when the program starts, appended to as it goes on.
//
// Owns: the file's descriptor. Thread: one. Blocks: on the file. Errors: SystemError, as the report cannot be written.
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
        if (!entry.is_object()) return;  // a line that was cut short by a death
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

// The slab with the samples of one part alone; the others are empty rows, which processors leave out.
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
