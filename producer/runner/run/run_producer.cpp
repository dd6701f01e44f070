#include "producer/runner/run/run_producer.hpp"

#include <cstdio>
#include <exception>
#include <string_view>
#include <thread>
#include <utility>

#include "common/app/program/data_folder.hpp"
#include "common/app/program/descriptor_limit.hpp"
#include "common/app/program/end_signals.hpp"
#include "common/app/program/freed_memory.hpp"
#include "common/app/program/trace_file.hpp"
#include "common/app/settings/declared_setting.hpp"
#include "common/app/settings/exit_code.hpp"
#include "common/app/settings/flag_remedies.hpp"
#include "common/app/settings/run_config.hpp"
#include "common/base/clock.hpp"
#include "common/base/error.hpp"
#include "common/base/failpoint.hpp"
#include "common/base/log.hpp"
#include "common/base/scarcity.hpp"
#include "common/base/version.hpp"
#include "common/shm/run_objects.hpp"
#include "producer/runner/kernels/gpu_choice.hpp"
#include "producer/runner/models/model_file.hpp"
#include "producer/runner/models/model_library.hpp"
#include "producer/runner/models/model_names.hpp"
#include "producer/runner/models/weights_file.hpp"
#include "producer/runner/probe/machine_probe.hpp"
#include "producer/runner/run/defaults.hpp"
#include "producer/runner/run/job_words.hpp"
#include "producer/runner/run/producer_run.hpp"
#include "producer/runner/run/settled_metadata.hpp"
#include "producer/runner/sources/named_source.hpp"
#include "producer/runner/sources/npy_cases.hpp"

namespace offramp {
namespace {

void print_names() {
    std::printf("models: copy");
    for (const std::string& name : ModelLibrary::open().names()) std::printf(" %s", name.c_str());
    std::printf("\nsources:");
    for (const SourceEntry& entry : SourceEntry::all())
        std::printf(" %.*s", static_cast<int>(entry.name.size()), entry.name.data());
    std::printf("\n");
}

RunConfig resolve(RunConfig config, const EgressTraits& traits) {
    ModelChoice choice = choose_model(config.model, config.weights, data_folder());
    config.model = std::move(choice.name);
    config.weights = std::move(choice.weights);
    require_model_name(config.model);
    if (!config.weights.empty()) static_cast<void>(open_weights(config.weights));  // fails before a library is loaded
    if (!config.input.empty()) require_input(config.input);
    if (config.source == "auto" && has_arrays_alone(config.input)) config.source = "npy";
    const MachineSize machine{.has_gpu = open_device_for_kernels(config.device)->is_gpu(),
                              .cores = std::thread::hardware_concurrency()};
    const ModelMetadata metadata = settled_metadata(config);
    config = resolve_defaults(config, machine, metadata, traits);
    source_named(config.source);
    require_tiles_fit(config, metadata);
    require_chunks_fit(config, metadata);
    return config;
}

void require_weights(const RunConfig& config) {
    if (config.weights.empty() && !config.random_weights && config.model != "copy" && !is_model_file(config.model))
        throw no_weights(config.model);
}

// Of an egress that this program does not have, those of any: the launcher asks before it chooses the program.
EgressTraits traits_for(const RunConfig& config, const ProducerProgram& program) {
    const auto strategy = program.choose_egress(config);
    return strategy ? strategy->traits() : EgressTraits{};
}

// A launcher's question before a run: the settings as resolved and as given, and this program's version.
int print_settings(int argc, const char* const* argv, const ProducerProgram& program) {
    const auto given = parse_run_config(argc, argv, program.name);
    if (!given) return to_int(ExitCode::Ok);
    const RunConfig settings = resolve(*given, traits_for(*given, program));
    return std::printf("{\"version\": \"%s\", \"settings\": %s, \"given\": %s}\n",
                       std::string(program_version()).c_str(), to_json(settings).c_str(), to_json(*given).c_str()),
           to_int(ExitCode::Ok);
}

// `list`: the file for the input's list; empty: none.
int print_job_facts(const std::string& list, int argc, const char* const* argv, const ProducerProgram& program) {
    spdlog::set_level(spdlog::level::err);
    const auto parsed = parse_run_config(argc, argv, program.name);
    if (!parsed) return to_int(ExitCode::Ok);
    const RunConfig config = resolve(*parsed, traits_for(*parsed, program));
    require_weights(config);
    return std::printf("%s\n", job_facts(config, list).c_str()), to_int(ExitCode::Ok);
}

int run(int argc, const char* const* argv, const ProducerProgram& program) {
    const std::uint64_t began_ns = now_ns();
    // A command comes first; flags follow.
    const std::string_view command = argc > 1 ? argv[1] : "";
    if (argc > 4 && command == "join-shards") return join_shards_named(argv[2], argv[3], argv[4]), to_int(ExitCode::Ok);
    if (command == "settings") return print_settings(argc - 1, argv + 1, program);
    if (argc > 2 && command == "job-facts") return print_job_facts(argv[2], argc - 2, argv + 2, program);
    const bool probes = command == "probe", sweeps = command == "sweep", recovers = command == "recover";
    const int words = probes || sweeps || recovers ? 1 : 0;
    auto parsed = parse_run_config(argc - words, argv + words, program.name);
    if (!parsed) return to_int(ExitCode::Ok);
    if (parsed->list) return print_names(), to_int(ExitCode::Ok);
    if (probes) return std::printf("%s\n", probe_machine_json().c_str()), to_int(ExitCode::Ok);
    parsed->recover = recovers;
    if (parsed->print_config)
        return std::printf("%s\n", to_json(resolve(*parsed, traits_for(*parsed, program))).c_str()),
               to_int(ExitCode::Ok);
    auto strategy = sweeps ? nullptr : program.choose_egress(*parsed);
    if (!sweeps && !strategy) {
        const ChosenEgress chosen = ChosenEgress::in(parsed->catalogue);
        throw ConfigError("--" + chosen.flag + " '" + chosen.name +
                          "' needs offramp-ladder, which takes the same flags");
    }
    if (!sweeps && (parsed->run_dir.empty() || parsed->run_id.empty()))
        throw ConfigError("a producer needs --run-dir and --run-id",
                          "Start runs with launch/offramp run, which chooses both");

    start_logging("producer", parsed->log_level, parsed->log_format, parsed->log_file);
    // A run about to be recovered may have no process left that holds it.
    if (!recovers)
        for (const std::string& name : sweep_dead_runs()) spdlog::info("removed {}, left by a dead run", name);
    if (sweeps) return to_int(ExitCode::Ok);
    if (!parsed->trace_dir.empty()) start_recording(parsed->trace_dir, "producer", strategy->traits().name);
    raise_descriptor_limit();  // each consumer takes three
    keep_freed_memory();       // a model on the CPU allocates its outputs for each batch
    const EndSignals signals;
    const RunConfig config = resolve(*parsed, strategy->traits());
    require_weights(config);
    if (const std::string warning = warning_about_size(*parsed, config); !warning.empty()) spdlog::warn("{}", warning);
    const ExitCode code = ProducerRun(config, std::move(strategy), signals, began_ns).execute();
    failpoint("run.swept");
    save_recording();
    return to_int(code);
}

// Before logging has started, plain standard error; afterwards the format that the user chose.
void say(const ProducerProgram& program, const std::string& text) {
    if (spdlog::default_logger()->name().empty())
        std::fprintf(stderr, "%s: %s\n", program.name, text.c_str());
    else
        spdlog::critical("{}", text);
}

}  // namespace

int run_producer(int argc, const char* const* argv, const ProducerProgram& program) noexcept {
    put_remedies(flag_remedy);
    try {
        try {
            return run(argc, argv, program);
        } catch (...) {
            std::rethrow_exception(with_limits_named(std::current_exception()));
        }
    } catch (const Error& problem) {
        say(program, problem.what());
        return to_int(problem.kind());
    } catch (const std::exception& problem) {
        say(program, std::string("unexpected: ") + problem.what());
        return to_int(ErrorKind::Internal);
    }
}

}  // namespace offramp
