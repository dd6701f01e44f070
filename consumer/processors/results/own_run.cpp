#include "consumer/processors/results/own_run.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/app/settings/processor_results.hpp"
#include "common/app/settings/run_config.hpp"
#include "common/base/error.hpp"
#include "common/base/files.hpp"
#include "common/base/held_folder.hpp"
#include "common/base/log.hpp"
#include "common/base/scarcity.hpp"
#include "common/base/unique_fd.hpp"
#include "common/json/json_text.hpp"
#include "consumer/processors/results/outputs_of_run.hpp"
#include "consumer/processors/results/run_output.hpp"

namespace offramp {
namespace {

using nlohmann::json;

constexpr const char* kOwnRunOtherwise =
    "--overwrite to keep them under another name and begin anew, or another --output";

std::string note_in(const std::string& output) { return output + "/" + std::string(kReservedPrefix) + "own-run"; }

// True if shared results are kept by key. All others are kept by item number.
bool is_kept_by_key(std::string_view processor) {
    const ProcessorResults* const known = ProcessorResults::of(processor);
    return known != nullptr && known->kept_by_key;
}

SystemError cannot_write_in(const std::string& path, int problem) {
    return SystemError("writing " + path, problem,
                       way_to_write(problem, "Give --output a folder that this user may write to"),
                       ErrorKind::CannotWrite);
}

// A line of the checkpoint, in the form of producer/runner/checkpoint/checkpoint_file.cpp. `body`: without its opening
// brace.
std::string sealed(const std::string& body) {
    return fmt::format("{{\"xxh3\":\"{:016x}\",{}\n", XXH3_64bits(body.data(), body.size()), body);
}

// In the form of producer/runner/checkpoint/checkpoint_file.hpp, without items: only the program knows which are done.
std::string checkpoint_of(const RunConfig& config, OwnRunEnd end) {
    json header = {{"run", config.run_id},
                   {"pid", ::getpid()},
                   {"before", 0},
                   {"named", false},
                   {"identity",
                    {{"source", kOwnProgram},
                     {"--processor", config.processor},
                     {"--write-path", config.catalogue.text("write-path")}}}};
    header["checkpoint"] = 2;
    std::string text = sealed(json_text(header).substr(1));
    if (end == OwnRunEnd::Ended) text += sealed("\"ended\":true}");
    return text;
}

void write_whole(const std::string& path, const std::string& text) {
    WholeFile file(path, 0644, [&path](int problem) { return cannot_write_in(path, problem); });
    file.write(text);
    file.flush();
    file.put_in_place();
    file.flush_name();
}

// True if consumers of this run worked here before: their results belong to the run.
bool was_here(const std::string& output, const std::string& run) {
    const UniqueFd file(::open(note_in(output).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    std::array<char, 256> text{};
    const ssize_t got = file ? ::read(file.get(), text.data(), text.size()) : 0;
    return got > 0 && std::string_view(text.data(), static_cast<std::size_t>(got)) == run + "\n";
}

// Earlier results in outputs that are appended to.
struct Found {
    std::string what;     // the first, for errors; empty: nothing
    std::string by_item;  // the first processor whose results are kept by item number
};
Found look_at_outputs(const RunConfig& config) {
    Found found;
    for_each_output(config, [&](const RunOutput& output, const ResultSettings& own) {
        const std::string previous = output.look(own);
        if (previous.empty()) return;
        if (found.what.empty()) found.what = previous;
        if (found.by_item.empty() && !is_kept_by_key(own.processor)) found.by_item = own.processor;
    });
    return found;
}

void require_by_key(const Found& found) {
    if (found.by_item.empty()) return;
    throw ConfigError(found.what + " cannot be added to: processor " + found.by_item +
                          " keeps results by item number, which each run of a custom program starts anew",
                      std::string("Give ") + kOwnRunOtherwise);
}

[[noreturn]] void refuse(const std::string& what, const Found& found) {
    throw ConfigError(
        what + " holds the results of an earlier run",
        std::string("Give ") +
            (found.by_item.empty() ? "--resume to add to them (a sample of the same key replaces its earlier result), "
                                   : "") +
            kOwnRunOtherwise);
}

}  // namespace

void prepare_own_run(const RunConfig& config, const std::string& run, ItemNumbers numbers) {
    if (config.output.empty() || was_here(config.output, run)) return;
    const auto previous = read_previous_run(config.output);
    const Found found = look_at_outputs(config);
    if (config.resume) {
        if (previous && !previous->of_own_program)
            throw ConfigError("--output " + config.output + " holds the results of run " + previous->run_id +
                                  ", which is not a run of a custom program",
                              "Continue that run with `offramp run --resume`, or give this run another --output");
        if (previous) require_same_processors(*previous, config);
        if (numbers == ItemNumbers::CountedAnew) require_by_key(found);
    } else if (previous) {
        refuse("--output " + config.output, found);
    } else if (!found.what.empty()) {
        for_each_output(config, [&](const RunOutput& output, const ResultSettings& own) {
            const std::string there = output.look(own);
            if (!there.empty() && !(config.overwrite && output.set_aside(own, config.run_id))) refuse(there, found);
        });
    }
    write_whole(note_in(config.output), run + "\n");
}

void forget_own_run(const std::string& output) { ::unlink(note_in(output).c_str()); }

void finish_own_run(const RunConfig& config, OwnRunEnd end) {
    if (!config.output.empty()) remove_leftovers(config.output);
    for_each_output(config, [](const RunOutput& output, const ResultSettings& own) { output.finish(own); });
    if (config.output.empty()) return;
    for_each_output(config, [&](const RunOutput& output, const ResultSettings& own) {
        if (end == OwnRunEnd::Nothing)
            output.put_back(own, config.run_id);
        else if (end == OwnRunEnd::Ended)
            output.note_end(own);
        else
            output.note_broken_off(own);
    });
    if (end == OwnRunEnd::Nothing) {
        if (config.overwrite) forget_own_run(config.output);  // the restored results belong to another run
        return;                                               // consumers may return to the run
    }
    write_whole(config.output + "/" + std::string(kReservedPrefix) + "checkpoint", checkpoint_of(config, end));
    if (end == OwnRunEnd::Ended) forget_own_run(config.output);  // if it stays, it names a finished run
}

}  // namespace offramp
