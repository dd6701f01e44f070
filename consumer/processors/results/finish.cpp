#include "consumer/processors/results/finish.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/app/program/output_share.hpp"
#include "common/app/settings/parsed_values.hpp"
#include "common/app/settings/processor_results.hpp"
#include "common/app/settings/run_config.hpp"
#include "common/base/error.hpp"
#include "common/base/files.hpp"
#include "common/base/held_folder.hpp"
#include "common/base/log.hpp"
#include "common/base/remedy.hpp"
#include "common/base/unique_fd.hpp"
#include "common/json/json_text.hpp"
#include "consumer/processors/processor.hpp"
#include "consumer/processors/results/outputs_of_run.hpp"
#include "consumer/processors/results/run_output.hpp"

namespace offramp {
namespace {

[[noreturn]] void refuse(const std::string& what, bool resumes) {
    throw ConfigError(what + " holds the results of an earlier run",
                      std::string(resumes ? "There is no checkpoint that --resume could continue. Give "
                                          : "Give --resume to compute missing and new items, ") +
                          "--overwrite to keep these results under another name and begin anew, or another place "
                          "(--output, --sink-table)");
}

}  // namespace

void prepare_run(const RunConfig& config) {
    if (config.output.empty()) return;
    remove_leftovers(config.output);
    const auto previous = read_previous_run(config.output);
    if (config.resume && !previous && has_checkpoint(config.output)) return;  // the producer reports the damage
    if (previous && config.resume) require_same_processors(*previous, config);
    if (previous && !config.resume) refuse("--output " + config.output, false);
    for_each_output(config, [&](const RunOutput& output, const ResultSettings& own) {
        const std::string found = output.look(own);
        if (!found.empty() && !(config.resume && previous) && !config.overwrite) refuse(found, config.resume);
    });
    // Renames only after all outputs were checked: a refused run renames no table.
    for_each_output(config, [&](const RunOutput& output, const ResultSettings& own) {
        if (!config.overwrite) return;
        const std::string found = output.look(own);
        if (!found.empty() && !output.set_aside(own, config.run_id)) refuse(found, config.resume);
    });
    forget_own_run(config.output);
}

void finish_run(const RunConfig& config) {
    if (!config.output.empty()) remove_leftovers(config.output);
    for_each_output(config, [](const RunOutput& output, const ResultSettings& own) { output.finish(own); });
    if (config.output.empty()) return;
    const auto run = read_previous_run(config.output);
    const bool is_other_run = run && !config.run_id.empty() && run->run_id != config.run_id;
    if (is_other_run) return;  // this run has done nothing
    for_each_output(config, [&](const RunOutput& output, const ResultSettings& own) {
        if (!run)
            output.put_back(own, config.run_id);
        else if (run->ended)
            output.note_end(own);
        else
            output.note_broken_off(own);
    });
}

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

// A line of the checkpoint, in the form of producer/runner/checkpoint/sealed_line.cpp. `body`: without its opening
// brace.
std::string sealed(const std::string& body) {
    return fmt::format("{{\"xxh3\":\"{:016x}\",{}\n", XXH3_64bits(body.data(), body.size()), body);
}

// In the form of producer/runner/checkpoint/checkpoint_file.hpp, without items: only the program knows which are done.
std::string checkpoint_of(const RunConfig& config, OwnRunEnd end) {
    json header = {{"run", config.run_id},
                   {"pid", ::getpid()},
                   {"before", 0},
                   {"identity",
                    {{"source", kOwnProgram},
                     {"--processor", config.processor},
                     {"--write-path", config.catalogue.text("write-path")}}}};
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

namespace {

// The names of the shard's files in `folder`, which is the shard's place or a folder in it.
std::vector<std::string> files_in(const std::string& folder, const std::string& place,
                                  const std::vector<std::string>& files) {
    std::vector<std::string> names;
    for (const std::string& file : files) {
        const std::filesystem::path path(place + "/" + file);
        if (path.parent_path() == folder) names.push_back(path.filename().string());
    }
    return names;
}

// Reads a file that the launcher writes whole. A read error may be temporary. A missing file will not return: the job
// was merged meanwhile, or abandoned.
std::string text_of_job_file(const std::string& path) {
    try {
        const RegularFile file(path);
        std::string text(file.size(), '\0');
        text.resize(file.read_at(0, std::as_writable_bytes(std::span(text))));
        return text;
    } catch (const Error& problem) {
        std::error_code unknown;
        if (!std::filesystem::exists(path, unknown) && !unknown)
            throw Error(
                ErrorKind::CannotWrite, path + ", which names the job of this output, is gone",
                "Check that the shared folder is mounted on this host. If it is, the job was merged or discarded");
        throw Error(ErrorKind::SinkUnavailable, path + ", which names the job of this output: " + problem.what(),
                    "Check that the shared folder is mounted on this host, and start the shard again");
    }
}

}  // namespace

void join_shards(const RunConfig& config, std::span<const DoneParts> shards, std::uint64_t count, std::uint64_t items) {
    const std::size_t processors = config.processors().size();
    for_each_output(config, [&](const RunOutput& output, const ResultSettings& own) {
        std::vector<ShardPart> parts;
        for (const DoneParts& shard : shards) {
            const Shard::Range share = Shard{shard.index + 1, count}.of(items);
            const std::string place = shard_place(config.output, shard.index);
            const std::string folder = results_folder(place, own.processor, processors);
            parts.push_back({.folder = folder,
                             .items = {share.begin, share.end},
                             .files = files_in(folder, place, shard.files),
                             .to_do_again = to_do_shard_again(config.output, shard.index)});
        }
        output.join(own, parts);
    });
}

std::string job_of_shard(const std::string& place) {
    const std::string shards = "/" + std::string(kReservedPrefix) + "shards/";
    const std::size_t at = place.rfind(shards);
    if (at == std::string::npos)
        throw ConfigError("--samples-folder is for a job's shards, and --output " + place + " is not a shard's folder",
                          "Leave --samples-folder out: ./launch/offramp shard gives both");
    const std::string path = place.substr(0, at) + shards + "job.json";
    const nlohmann::json job_file = parse_json_or_discard(text_of_job_file(path));
    if (!job_file.is_object() || !job_file.contains("job") || !job_file["job"].is_string())
        throw Error(ErrorKind::BadInput, path + " does not name the job of this output",
                    "Begin the job again with ./launch/offramp job init, which writes it");
    return job_file["job"].get<std::string>();
}

}  // namespace offramp
