#include "consumer/worker/run_consumer.hpp"

#include <cstdio>
#include <string_view>

#include "common/base/end_signals.hpp"
#include "common/base/error.hpp"
#include "common/base/exit_code.hpp"
#include "common/base/log.hpp"
#include "common/base/trace_recording.hpp"
#include "common/settings/kept_settings.hpp"
#include "common/settings/slab_work.hpp"
#include "consumer/processors/processor_names.hpp"
#include "consumer/processors/results/finish.hpp"
#include "consumer/worker/consumer_program.hpp"
#include "consumer/worker/retry_program.hpp"

namespace offramp {
namespace {

constexpr const char* kProgram = "offramp-consumer";

int list_processors() {
    for (const ProcessorEntry& entry : ProcessorEntry::all())
        std::printf("processor %.*s\n", static_cast<int>(entry.name.size()), entry.name.data());
    return to_int(ExitCode::Ok);
}

// Its errors and warnings are the launcher's to tell: the words alone, warnings on standard output.
int prepare(int argc, const char* const* argv) {
    spdlog::set_level(spdlog::level::warn);
    spdlog::set_pattern("%l: %v");
    try {
        if (const auto config = parse_run_config(argc, argv, kProgram)) prepare_run(*config);
        return to_int(ExitCode::Ok);
    } catch (const Error& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return to_int(error.exit_code());
    }
}

// What it was told and the run does otherwise. Errors: ConfigError names it, with both values.
void require_same_work(const RunConfig& config, const RunConfig& run) {
    const std::string difference = SlabWork::difference(config, run);
    if (difference.empty()) return;
    throw ConfigError(
        "this consumer's results would not be those of the run in " + config.run_dir + ": " + difference,
        "Leave these out: it takes the run's own settings, which stand in " + kept_settings_path(config.run_dir));
}

// The processor may be made of what the run settled, and is made when the run has let this consumer in.
int serve(int argc, const char* const* argv, const RunConfig& told, const EndSignals& signals,
          const ProcessorMaking& making) {
    const auto endpoint = wait_for_run(told, signals);
    if (!endpoint) return to_int(ExitCode::Ok);
    const RunConfig config = parse_consumer_config(argc, argv, kProgram, told.run_dir).value();
    require_processors(config, making.besides);
    RunConfig as_told = config;
    if (!making.stands_for.empty()) as_told.processor = making.stands_for;
    require_same_work(as_told, kept_settings(told.run_dir));

    if (!config.trace_dir.empty()) start_recording(config.trace_dir, "consumer", config.catalogue.text("rung"));
    std::unique_ptr<Processor> processor;
    const int code =
        serve_run(as_told, *endpoint, signals, [&]() -> Processor& { return *(processor = making.make(config)); });
    save_recording();
    return code;
}

int do_what_is_asked(int argc, const char* const* argv, const ProcessorMaking& making) {
    // A word of the launcher's, no setting: before a run. Its flags follow.
    if (argc > 1 && std::string_view(argv[1]) == "--prepare") return prepare(argc - 1, argv + 1);
    const EndSignals signals;
    const auto told = parse_run_config(argc, argv, kProgram);
    if (!told) return to_int(ExitCode::Ok);
    if (told->list) return list_processors();
    require_processors(*told, making.besides);
    if (told->print_config) return std::printf("%s\n", to_json(*told).c_str()), to_int(ExitCode::Ok);

    start_logging(kProgram, told->log_level, told->log_format, told->log_file);
    if (told->finish) {
        finish_run(*told);
        return to_int(ExitCode::Ok);
    }
    if (told->retry.empty()) return serve(argc, argv, *told, signals, making);
    const auto processor = making.make(*told);
    return retry_payload(told->retry, *processor);
}

}  // namespace

int run_consumer(int argc, const char* const* argv, const ProcessorMaking& making) noexcept {
    return exit_code_of([&] { return do_what_is_asked(argc, argv, making); });
}

}  // namespace offramp
