#include "consumer/processors/results/own_run.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/app/program/next_place.hpp"
#include "common/app/settings/processor_results.hpp"
#include "common/app/settings/run_config.hpp"
#include "common/base/error.hpp"
#include "common/base/log.hpp"
#include "common/base/reserved_prefix.hpp"
#include "common/base/unique_fd.hpp"
#include "common/base/way_to_write.hpp"
#include "common/base/whole_file.hpp"
#include "common/json/json_text.hpp"
#include "consumer/processors/results/outputs_of_run.hpp"
#include "consumer/processors/results/previous_run.hpp"

namespace offramp {
namespace {

using nlohmann::json;

constexpr const char* kOwnRunOtherwise = "--overwrite to replace them once this run has finished, or another --output";

std::string note_in(const std::string& output) { return output + "/" + std::string(kReservedPrefix) + "own-run"; }

// Where what all consumers append to is kept by key. All else is kept by the items' numbers.
bool is_kept_by_key(std::string_view processor) {
    const ProcessorResults* const known = ProcessorResults::of(processor);
    return known != nullptr && known->kept_by_key;
}

SystemError cannot_write_in(const std::string& path, int problem) {
    return SystemError("writing " + path, problem,
                       way_to_write(problem, "Give --output a folder that this user may write to"),
                       ErrorKind::CannotWrite);
}

// A line of the checkpoint, as producer/runner/checkpoint/sealed_line.cpp writes it. `body`: without its opening brace.
std::string sealed(const std::string& body) {
    return fmt::format("{{\"xxh3\":\"{:016x}\",{}\n", XXH3_64bits(body.data(), body.size()), body);
}

// In the form of producer/runner/checkpoint/checkpoint_file.hpp, with no item: what is done only the program knows.
std::string checkpoint_of(const RunConfig& config, const std::string& next_place, bool finished_before, OwnRunEnd end) {
    json header = {{"run", config.run_id},
                   {"pid", ::getpid()},
                   {"before", 0},
                   {"identity",
                    {{"source", kOwnProgram},
                     {"--processor", config.processor},
                     {"--write-path", config.catalogue.text("write-path")}}}};
    if (!next_place.empty()) header["next"] = next_place;
    if (finished_before) header["finished"] = true;
    header["checkpoint"] = 1;
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

// Consumers of this very run were here before, and what they made is its own.
bool was_here(const std::string& output, const std::string& run) {
    const UniqueFd file(::open(note_in(output).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    std::array<char, 256> text{};
    const ssize_t got = file ? ::read(file.get(), text.data(), text.size()) : 0;
    return got > 0 && std::string_view(text.data(), static_cast<std::size_t>(got)) == run + "\n";
}

// Earlier results of the outputs that are appended to.
struct Found {
    std::string what;     // the first, for errors; empty: nothing
    std::string by_item;  // the first processor whose results are kept by the items' numbers
};
Found look_at_outputs(const RunConfig& config) {
    Found found;
    for_each_output(config, [&](const RunOutput& output, const ResultSettings& own) {
        const PreviousOutput previous = output.look(own);
        if (previous.state == PreviousOutput::State::None) return;
        if (found.what.empty()) found.what = previous.what.empty() ? own.output : previous.what;
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

// The results of a run that was killed during a replacement would be lost. Errors: ConfigError.
void require_noted_elsewhere(const RunConfig& config, const std::string& next_place) {
    const std::string noted = next_place_of(config.output);
    if (noted.empty() || noted == next_place) return;
    for_each_output(config, [&](const RunOutput&, const ResultSettings& own) {
        std::error_code none;
        const std::string folder = folder_in(own.output, noted);
        if (!std::filesystem::is_empty(folder, none) && !none)
            throw ConfigError(
                folder + " holds the results of an earlier run, which were to replace those in " + own.output,
                "Move it away to keep it, or give --overwrite, or another --output");
    });
}

// Errors: ConfigError.
void require_nothing_finished(const ResultSettings& config, const std::optional<PreviousRun>& previous,
                              const Found& found) {
    const auto in_folder = [&](const std::string& processor) {
        return has_results_in_folder(processor, previous->write_path);
    };
    const std::string choice =
        std::string("Give ") +
        (found.by_item.empty() ? "--resume to add to them (a sample of the same key replaces its earlier result), "
                               : "") +
        kOwnRunOtherwise;
    if (previous && previous->finished && std::ranges::any_of(previous->processors, in_folder))
        throw ConfigError(
            "--output " + config.output + " holds the results of run " + previous->run_id + ", which has finished",
            choice);
    if (!found.what.empty())
        throw ConfigError(found.what + " holds the results of an earlier run that may be unfinished", choice);
}

}  // namespace

void prepare_own_run(const RunConfig& config, const std::string& run, ItemNumbers numbers) {
    if (config.resume && config.overwrite)
        throw ConfigError("--resume and --overwrite contradict each other",
                          "Give --resume to add to the results in --output, --overwrite to replace them");
    if (config.output.empty() || was_here(config.output, run)) return;
    const auto previous = read_previous_run(config.output);
    if (previous) complete_previous(config, *previous);
    if (!config.overwrite && previous) {
        if (!previous->of_own_program)
            throw ConfigError("--output " + config.output + " holds the results of run " + previous->run_id +
                                  ", which is not a run of a custom program",
                              "Continue that run with `offramp run --resume`, give this run another --output, or "
                              "give --overwrite to replace the results");
        require_no_other_work(*previous, config);
    }
    const Found found = look_at_outputs(config);
    if (config.resume) {
        if (numbers == ItemNumbers::CountedAnew) require_by_key(found);
        const std::string left = previous && !previous->ended ? previous->next_place : "";
        require_noted_elsewhere(config, left);
        note_next_place(config.output, left);
    } else {
        if (!config.overwrite) require_nothing_finished(config, previous, found);
        note_next_place(config.output, found.what.empty() ? std::string() : new_next_place());
    }
    write_whole(note_in(config.output), run + "\n");
}

void forget_own_run(const std::string& output) { ::unlink(note_in(output).c_str()); }

void finish_own_run(const RunConfig& config, OwnRunEnd end) {
    const std::string next_place = config.output.empty() ? std::string() : next_place_of(config.output);
    if (!config.output.empty()) remove_leftovers(config.output);
    finish_outputs(config, next_place);
    if (config.output.empty()) return;
    const auto previous = read_previous_run(config.output);
    if (end == OwnRunEnd::Nothing) return;  // consumers may come back to it
    const bool finished_before = previous && previous->of_own_program && previous->finished;
    write_whole(config.output + "/" + std::string(kReservedPrefix) + "checkpoint",
                checkpoint_of(config, next_place, finished_before, end));
    if (end == OwnRunEnd::Ended) {
        put_in_place(config, next_place);
        forget_own_run(config.output);  // where it stays, it names a run that is over
    }
    remove_unreachable(config, next_place);
}

}  // namespace offramp
