#include "consumer/worker/run_consumer.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <iostream>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "common/app/program/own_process.hpp"
#include "common/app/settings/declared_setting.hpp"
#include "common/app/settings/exit_code.hpp"
#include "common/app/settings/kept_settings.hpp"
#include "common/app/settings/processor_results.hpp"
#include "common/base/error.hpp"
#include "common/base/log.hpp"
#include "common/base/version.hpp"
#include "common/shm/run_files.hpp"
#include "common/shm/run_objects.hpp"
#include "common/tracing/range_file.hpp"
#include "consumer/hosts/make_hosted.hpp"
#include "consumer/processors/results/outputs_of_run.hpp"
#include "consumer/processors/results/own_run.hpp"
#include "consumer/processors/results/shard_results.hpp"
#include "consumer/sinks/files/atomic_file.hpp"
#include "consumer/sinks/segments/segment_file.hpp"
#include "consumer/worker/consumer_program.hpp"

namespace offramp {
namespace {

constexpr const char* kProgram = "offramp-consumer";

struct CommandLine {
    int argc = 0;
    const char* const* argv = nullptr;
};

int list_processors() {
    for (const ProcessorEntry& entry : ProcessorEntry::all())
        std::printf("processor %.*s\n", static_cast<int>(entry.name.size()), entry.name.data());
    return to_int(ExitCode::Ok);
}

// The launcher asks this before it starts consumers: prints their settings and this program's version.
int print_settings(int argc, const char* const* argv, const ProcessorMaking& making) {
    const auto config = parse_run_config(argc, argv, kProgram);
    if (!config) return to_int(ExitCode::Ok);
    require_processors(*config, making.besides);
    return std::printf("{\"version\": \"%s\", \"settings\": %s}\n", std::string(program_version()).c_str(),
                       to_json(*config).c_str()),
           to_int(ExitCode::Ok);
}

// The launcher prints this program's errors and warnings. Writes the text only; warnings go to standard output.
int prepare(int argc, const char* const* argv, const std::function<void(const RunConfig&)>& prepare_output) {
    spdlog::set_level(spdlog::level::warn);
    spdlog::set_pattern("%l: %v");
    try {
        if (const auto config = parse_run_config(argc, argv, kProgram)) prepare_output(*config);
        return to_int(ExitCode::Ok);
    } catch (const Error& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return to_int(error.kind());
    }
}

// Checks that the segments to merge are in the folders that the run's consumers noted. Then removes the notes, because
// the merge removes those folders.
void require_segments_in_place(const RunConfig& config) {
    const std::string notes = config.run_dir + "/" + run_files::kResultFolders;
    std::error_code unknown;
    if (config.run_dir.empty() || !std::filesystem::exists(notes, unknown)) return;
    if (std::filesystem::is_directory(config.output, unknown)) {
        HeldOutput held;
        held.hold(config.output, "the output folder");
        held.share_notes(notes);
        for (const ResultSettings& own : own_results(config))
            held.require_noted(std::filesystem::path(segment_folder(own.output, "any")).parent_path().string());
    }
    std::filesystem::remove(notes, unknown);
}

// For a custom program's run. `how`: the name of an OwnRunEnd, in lower case.
int finish_own(std::string_view how, int argc, const char* const* argv) {
    constexpr std::pair<std::string_view, OwnRunEnd> kEnds[] = {
        {"nothing", OwnRunEnd::Nothing}, {"unfinished", OwnRunEnd::Unfinished}, {"ended", OwnRunEnd::Ended}};
    const auto* const end = std::ranges::find(kEnds, how, &std::pair<std::string_view, OwnRunEnd>::first);
    if (end == std::end(kEnds))
        throw ConfigError("finish-own-run '" + std::string(how) + "'", "Known: nothing, unfinished, ended");
    const auto config = parse_run_config(argc, argv, kProgram);
    if (!config) return to_int(ExitCode::Ok);
    start_logging(kProgram, config->log_level, config->log_format, config->log_file);
    require_segments_in_place(for_any_folder(*config));
    finish_own_run(*config, end->second);
    sweep_dead_runs();
    return to_int(ExitCode::Ok);
}

std::uint64_t number_of(std::string_view text, const char* what) {
    std::uint64_t number = 0;
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (failure != std::errc() || end != text.data() + text.size())
        throw ConfigError("join-shards: " + std::string(what) + " '" + std::string(text) + "' is not a whole number",
                          "The launcher gives it");
    return number;
}

// "3", followed by the files that this shard left, separated by tabs.
DoneParts parts_in(std::string_view line) {
    const std::size_t end = std::min(line.find('\t'), line.size());
    DoneParts parts{.index = number_of(line.substr(0, end), "shard"), .files = {}};
    for (std::size_t at = end; at < line.size();) {
        const std::size_t next = std::min(line.find('\t', at + 1), line.size());
        parts.files.emplace_back(line.substr(at + 1, next - at - 1));
        at = next;
    }
    return parts;
}

// Joins a job of `items` split into `count` shards. Standard input lists the shards to include with their files, one
// per line.
int join(std::string_view items, std::string_view count, int argc, const char* const* argv) {
    const auto config = parse_run_config(argc, argv, kProgram);
    if (!config) return to_int(ExitCode::Ok);
    start_logging(kProgram, config->log_level, config->log_format, config->log_file);
    std::vector<DoneParts> shards;
    for (std::string line; std::getline(std::cin, line);) shards.push_back(parts_in(line));
    join_shards(*config, shards, number_of(count, "number of shards"), number_of(items, "number of items"));
    return to_int(ExitCode::Ok);
}

// Refuses settings that differ from the run's. Errors: ConfigError names one, with both values.
void require_same_work(const RunConfig& config, const RunConfig& run) {
    const std::string difference = SlabWork::difference(config, run);
    if (difference.empty()) return;
    throw ConfigError(
        "this consumer's results would differ from those of the run in " + config.run_dir + ": " + difference,
        "Leave these out: the consumer reads the run's settings in " + kept_settings_path(config.run_dir));
}

// Replaces this program with the interpreter that the processors need, unless it already is that interpreter.
void exec_interpreter(const RunConfig& config, CommandLine whole, const ProcessorMaking& making) {
    if (making.python == nullptr && needs_interpreter(config)) become_interpreter(config, whole.argc, whole.argv);
}

// Parses a nonce in the form of a run's endpoint. Errors: ConfigError.
std::uint64_t nonce_of(std::string_view text) {
    const auto nonce = RunNames::nonce_in(text);
    if (!nonce)
        throw ConfigError("serve '" + std::string(text) + "'",
                          "Give the 16 hexadecimal digits after nonce= in the run's file 'live/endpoint'");
    return *nonce;
}

// The processor may depend on the run's settings. It is made once the run has admitted this consumer.
int serve(CommandLine flags, CommandLine whole, const RunConfig& given, std::optional<std::uint64_t> nonce,
          const EndSignals& signals, const ProcessorMaking& making) {
    const auto endpoint = wait_for_run(given, nonce, signals);
    if (!endpoint) return to_int(ExitCode::Ok);
    // A custom program's run has no settings: this consumer uses its own.
    const bool has_settings = keeps_settings(given.run_dir);
    const RunConfig config =
        has_settings ? for_any_folder(parse_consumer_config(flags.argc, flags.argv, kProgram, given.run_dir).value())
                     : given;
    require_processors(config, making.besides);
    exec_interpreter(config, whole, making);  // if the run's settings, but not this consumer's, require it
    RunConfig effective = config;
    if (!making.stands_for.empty()) effective.processor = making.stands_for;
    if (has_settings) require_same_work(effective, kept_settings(given.run_dir));

    if (making.python == nullptr) keep_freed_memory();  // the user decides about an interpreter's memory
    if (!config.trace_dir.empty())
        start_recording(config.trace_dir, "consumer", ChosenEgress::in(config.catalogue).name);
    std::unique_ptr<Processor> processor;
    const std::uint64_t work = has_settings ? SlabWork::of(effective).hash() : kNoSettings;
    OutputOfRun output(config, endpoint->names.run_id);
    output.share_notes(endpoint->run_dir + "/" + run_files::kResultFolders);
    const int code = serve_run(effective, work, *endpoint, signals, [&]() -> SlabProcessor& {
        const RunConfig& own = output.settings();
        return output.guard(*(processor = making.make(own)), own);
    });
    save_recording();
    return code;
}

// Retries a dead letter, sample by sample. The flags determine where results go, which may differ from the run's
// output.
int retry_each_sample(CommandLine flags, CommandLine whole, const std::string& payload, const std::string& report,
                      const ProcessorMaking& making) {
    auto config = parse_run_config(flags.argc, flags.argv, kProgram);
    if (!config) return to_int(ExitCode::Ok);
    config = for_any_folder(*std::move(config));  // a custom processor may change the working folder
    require_processors(*config, making.besides);
    start_logging(kProgram, config->log_level, config->log_format, config->log_file);
    exec_interpreter(*config, whole, making);
    OutputOfRun output(*config, {});
    const auto processor = making.make(output.settings());
    return retry_samples(payload, report, output.guard(*processor, output.settings()));
}

int run_command(int argc, const char* const* argv, const ProcessorMaking& making) {
    const CommandLine whole{argc, argv};
    // A command precedes the flags.
    const std::string_view word = argc > 1 ? argv[1] : "";
    // Holds a share in the output's lock while it loads a user's code and tidies the results of earlier runs.
    const auto checked = [&](const std::function<void(const RunConfig&)>& work) {
        return [&, work](const RunConfig& config) {
            require_processors(config, making.besides);
            exec_interpreter(config, whole, making);
            const std::optional<OutputShare> share = share_in_output(config);
            check_hosted(config, making.python);
            work(config);
        };
    };
    if (word == "prepare") return prepare(argc - 1, argv + 1, checked(prepare_run));
    if (argc > 2 && word == "prepare-own-run")
        return prepare(argc - 2, argv + 2, checked([&](const RunConfig& config) { prepare_own_run(config, argv[2]); }));
    if (argc > 2 && word == "prepare-own-work")
        return prepare(argc - 2, argv + 2, checked([&](const RunConfig& config) {
                           prepare_own_run(config, argv[2], ItemNumbers::Continue);
                       }));
    if (argc > 3 && word == "join-shards") return join(argv[2], argv[3], argc - 3, argv + 3);
    if (argc > 2 && word == "finish-own-run") return finish_own(argv[2], argc - 2, argv + 2);
    if (argc > 3 && word == "retry-samples")
        return retry_each_sample({argc - 3, argv + 3}, whole, std::filesystem::absolute(argv[3]).string(),
                                 std::filesystem::absolute(argv[2]).string(), making);
    if (word == "settings") return print_settings(argc - 1, argv + 1, making);
    const bool finishes = word == "finish";
    const std::string payload = argc > 2 && word == "retry" ? std::filesystem::absolute(argv[2]).string() : "";
    // The launcher starts this consumer for this run only, not for the next one in the same directory.
    std::optional<std::uint64_t> nonce;
    if (argc > 2 && word == "serve") nonce = nonce_of(argv[2]);
    const int words = finishes ? 1 : nonce || !payload.empty() ? 2 : 0;
    argc -= words;
    argv += words;
    const EndSignals signals;
    auto given = parse_run_config(argc, argv, kProgram);
    if (!given) return to_int(ExitCode::Ok);
    if (given->list) return list_processors();
    require_processors(*given, making.besides);
    if (given->print_config) return std::printf("%s\n", to_json(*given).c_str()), to_int(ExitCode::Ok);

    start_logging(kProgram, given->log_level, given->log_format, given->log_file);
    if (finishes) {
        require_segments_in_place(for_any_folder(*given));
        finish_run(*given);
        sweep_dead_runs();  // the launcher held this run's lock until it ended
        return to_int(ExitCode::Ok);
    }
    exec_interpreter(*given, whole, making);    // it starts while the run starts
    given = for_any_folder(*std::move(given));  // a custom processor may change the working folder
    if (payload.empty()) return serve({argc, argv}, whole, *given, nonce, signals, making);
    OutputOfRun output(*given, {});
    const auto processor = making.make(output.settings());
    return retry_payload(payload, output.guard(*processor, output.settings()));
}

class InPlace final : public SlabProcessor {
  public:
    InPlace(SlabProcessor& processor, HeldOutput& output) : processor_(processor), output_(output) {}

    void process(const SlabContents& slab, const Progress& progress, const StillCurrent& still_current) override {
        output_.require_in_place();
        processor_.process(slab, progress, still_current);
        output_.require_in_place();
    }

  private:
    SlabProcessor& processor_;
    HeldOutput& output_;
};

void hold_if_there(HeldOutput& output, const std::string& folder, const std::string& what) {
    std::error_code unknown;
    if (std::filesystem::is_directory(folder, unknown)) output.hold(folder, what);
}

}  // namespace

ProcessorMaking own_processors(const offramp_processor* python) {
    const MakeHosted hosted = [python](const ProcessorSpec& spec, const ProcessorOptions& options) {
        return make_hosted(spec, options, python);
    };
    return {.make = [hosted](const RunConfig& config) { return make_processor(config.processor, config, &hosted); },
            .python = python};
}

int run_consumer(int argc, const char* const* argv, const ProcessorMaking& making) noexcept {
    put_remedies(flag_remedy);
    return exit_code_of([&] { return run_command(argc, argv, making); });
}

OutputOfRun::OutputOfRun(const RunConfig& config, const std::string& run_id)
    : settings_(config), uploads_(config.output.empty() ? nullptr : Uploads::of_run(config.run_dir)) {
    if (config.output.empty()) return;
    if (uploads_) settings_.samples_folder = uploads_->folder();
    const bool is_launched = config.lifeline_fd >= 0;
    std::error_code unknown;
    if (!is_launched)
        make_folder_of_results(config.output);
    else if (!std::filesystem::exists(config.output, unknown))
        fail_moved("the output folder", config.output, "it is not there");
    const HeldFolder& output = held_.hold(config.output, "the output folder");
    share_.emplace(output, run_id, is_launched ? OutputShare::Lock::Required : OutputShare::Lock::Optional);
    if (!settings_.samples_folder.empty()) held_.hold(settings_.samples_folder, "the output folder");
}

// Processors create further folders for themselves: these exist once the processors are made.
SlabProcessor& OutputOfRun::guard(SlabProcessor& processor, const RunConfig& config) {
    if (config.has_processor("write"))
        hold_if_there(held_, config.catalogue.text("write-path"), "the folder of --write-path,");
    guarded_ = std::make_unique<InPlace>(processor, held_);
    return uploads_ ? uploads_->after(*guarded_) : *guarded_;
}

std::optional<OutputShare> share_in_output(const RunConfig& config) {
    std::error_code unknown;
    if (!std::filesystem::is_directory(config.output, unknown)) return std::nullopt;
    return OutputShare(HeldFolder(config.output), config.run_id, OutputShare::Lock::Optional);
}

}  // namespace offramp
