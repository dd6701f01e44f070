#include "consumer/processors/results/outputs_of_run.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "common/app/settings/declared_setting.hpp"
#include "common/app/settings/processor_results.hpp"
#include "common/app/settings/run_config.hpp"
#include "common/app/settings/sections.hpp"
#include "common/app/settings/setting_checks.hpp"
#include "common/base/error.hpp"
#include "common/base/held_folder.hpp"
#include "common/base/redacted_url.hpp"
#include "common/base/unique_fd.hpp"
#include "common/json/json_text.hpp"
#include "consumer/processors/processor.hpp"
#include "consumer/processors/results/own_run.hpp"
#include "consumer/sinks/http/http_exchange.hpp"

namespace offramp {
namespace {

// Returns null for a processor that appends to nothing.
std::unique_ptr<RunOutput> output_of(const std::string& processor, const CatalogueValues& settings) {
    if (ProcessorSpec::of(processor)) return records_of_others();
    const auto entries = ProcessorEntry::all();
    // For "auto", takes its one choice that appends to a file.
    const auto entry = std::ranges::find(entries, processor == "auto" ? "mask-png" : processor, &ProcessorEntry::name);
    return entry == entries.end() ? nullptr : entry->run_output(settings);
}

[[noreturn]] void refuse(const std::string& what, bool resumes) {
    throw ConfigError(what + " holds the results of an earlier run",
                      std::string(resumes ? "There is no checkpoint that --resume could continue. Give "
                                          : "Give --resume to compute missing and new items, ") +
                          "--overwrite to keep these results under another name and begin anew, or another place "
                          "(--output, --sink-table)");
}

void require_known(const std::string& name, const RunConfig& config, std::span<const std::string_view> made_besides) {
    if (ProcessorSpec::of(name)) return;
    std::vector<std::string> known(made_besides.begin(), made_besides.end());
    std::string list;
    for (const ProcessorEntry& entry : ProcessorEntry::all()) {
        known.emplace_back(entry.name);
        list += (list.empty() ? "" : ", ") + known.back();
    }
    if (std::ranges::find(known, name) != known.end()) return;
    const auto nearest = nearest_word(name, known);
    throw ConfigError(config.flag_before(name) + "'" + name + "' is unknown",
                      (nearest ? "Did you mean " + *nearest + "? " : "") + "Known: " + list +
                          (config.group.empty() ? "; several with commas between" : ""));
}

// Checks the addresses that the processor declares. The run's own checks report a missing one.
void require_addresses(const std::string& processor, const CatalogueValues& values) {
    for (const DeclaredSetting& setting : DeclaredSetting::all()) {
        if (setting.plug_in != processor) continue;
        if (setting.kind == DeclaredSetting::Kind::Url) require_no_credentials(values.text(setting.flag));
        if (setting.kind == DeclaredSetting::Kind::Header && !is_left_out(values.text(setting.flag)))
            read_http_headers(values.text(setting.flag));
    }
}

// The form in which producer/runner/checkpoint/checkpoint_file.cpp writes them.
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

void for_each_output(const RunConfig& config,
                     const std::function<void(const RunOutput& output, const ResultSettings& own)>& work) {
    for (const ResultSettings& own : own_results(config))
        if (const auto output = output_of(own.processor, config.catalogue)) work(*output, own);
}

void require_same_processors(const PreviousRun& previous, const ResultSettings& config) {
    if (std::ranges::is_permutation(previous.processors, config.processors())) return;
    std::string names;
    for (const std::string& name : previous.processors) names += (names.empty() ? "" : ",") + name;
    throw ConfigError("--output " + config.output + " holds the results of run " + previous.run_id +
                          " of --processor " + names + ", and this run has --processor " + config.processor,
                      "Name the same processors, or give this run another --output");
}

void require_processors(const RunConfig& config, std::span<const std::string_view> made_besides) {
    if (config.processor == "auto") return;
    for (const std::string& name : config.processors()) require_known(name, config, made_besides);
    for (const ResultSettings& own : own_results(config)) {  // refuses a repeated name
        require_addresses(own.processor, config.catalogue);
        if (!tables_of(own).empty() && !own.has_database())
            throw ConfigError("--processor " + own.processor + " needs --sink, and none is given",
                              "Give the database: --sink postgres://USER@HOST/DATABASE");
    }
}

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

}  // namespace offramp
