#include "consumer/processors/results/previous_run.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <string_view>

#include "common/app/settings/sections/result_settings.hpp"
#include "common/base/reserved_prefix.hpp"
#include "common/base/unique_fd.hpp"
#include "common/json/json_text.hpp"
#include "consumer/processors/results/own_run.hpp"

namespace offramp {
namespace {

// As producer/runner/checkpoint/checkpoint_file.cpp writes them.
constexpr std::string_view kEndedLine = "\"ended\":true}";

std::string path_in(const std::string& output) { return output + "/" + std::string(kReservedPrefix) + "checkpoint"; }

std::string text_of(const std::string& path) {
    const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    struct stat facts {};
    std::string text;
    if (!file || ::fstat(file.get(), &facts) != 0 || !S_ISREG(facts.st_mode)) return text;
    text.resize(static_cast<std::size_t>(facts.st_size));
    std::size_t there = 0;
    while (there < text.size()) {
        const ssize_t got = ::read(file.get(), text.data() + there, text.size() - there);
        if (got <= 0) break;
        there += static_cast<std::size_t>(got);
    }
    text.resize(there);
    return text;
}

bool has_ended(std::string_view text) {
    for (std::size_t at = text.find(kEndedLine); at != std::string_view::npos; at = text.find(kEndedLine, at + 1))
        if (at + kEndedLine.size() < text.size() && text[at + kEndedLine.size()] == '\n') return true;
    return false;
}

}  // namespace

bool has_checkpoint(const std::string& output) {
    struct stat facts {};
    return ::lstat(path_in(output).c_str(), &facts) == 0;
}

std::optional<PreviousRun> read_previous_run(const std::string& output) {
    const std::string path = path_in(output);
    const std::string text = text_of(path);
    const std::string_view first = std::string_view(text).substr(0, text.find('\n'));
    const nlohmann::json header = parse_json_or_discard(first);
    PreviousRun run;
    try {
        run.run_id = header.at("run").get<std::string>();
        ResultSettings config;
        config.processor = header.at("identity").value("--processor", "");
        run.processors = config.processors();
        run.of_own_program = header.at("identity").value("source", "") == kOwnProgram;
    } catch (const nlohmann::json::exception&) {
        return std::nullopt;
    }
    run.ended = has_ended(std::string_view(text).substr(first.size()));
    return run;
}

}  // namespace offramp
