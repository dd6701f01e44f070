#include "consumer/run_consumer.hpp"

#include <cstdio>
#include <string_view>

#include "common/base/end_signals.hpp"
#include "common/base/error.hpp"
#include "common/base/exit_code.hpp"
#include "common/base/log.hpp"
#include "common/base/trace_recording.hpp"
#include "consumer/processors/finish.hpp"
#include "consumer/processors/processor_names.hpp"
#include "consumer/session/consumer_program.hpp"
#include "consumer/session/retry_program.hpp"

namespace offramp {
namespace {

constexpr const char* kProgram = "offramp-consumer";

int list_processors() {
    for (const ProcessorEntry& entry : ProcessorEntry::all())
        std::printf("processor %.*s\n", static_cast<int>(entry.name.size()), entry.name.data());
    return to_int(ExitCode::Ok);
}

// Its errors are the launcher's to tell: the words alone.
int prepare(int argc, const char* const* argv) {
    try {
        if (const auto config = parse_run_config(argc, argv, kProgram)) prepare_run(*config);
        return to_int(ExitCode::Ok);
    } catch (const Error& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return to_int(error.exit_code());
    }
}

int do_what_is_asked(int argc, const char* const* argv, const MakeProcessor& make, std::span<const std::string_view> made_besides,
                     const std::string& stands_for) {
    // A word of the launcher's, no setting: before a run. Its flags follow.
    if (argc > 1 && std::string_view(argv[1]) == "--prepare") return prepare(argc - 1, argv + 1);
    const EndSignals signals;
    const auto config = parse_run_config(argc, argv, kProgram);
    if (!config) return to_int(ExitCode::Ok);
    if (config->list) return list_processors();
    require_processors(*config, made_besides);
    if (config->print_config) return std::printf("%s\n", to_json(*config).c_str()), to_int(ExitCode::Ok);

    start_logging(kProgram, config->log_level, config->log_format, config->log_file);
    if (config->finish) {
        finish_run(*config);
        return to_int(ExitCode::Ok);
    }
    if (!config->trace_dir.empty()) start_recording(config->trace_dir, "consumer", config->rung);
    const auto processor = make(*config);
    RunConfig told = *config;
    if (!stands_for.empty()) told.processor = stands_for;
    const int code = config->retry.empty() ? serve_run(told, signals, *processor) : retry_payload(config->retry, *processor);
    save_recording();
    return code;
}

}  // namespace

int run_consumer(int argc, const char* const* argv, const MakeProcessor& make, std::span<const std::string_view> made_besides,
                 const std::string& stands_for) noexcept {
    return exit_code_of([&] { return do_what_is_asked(argc, argv, make, made_besides, stands_for); });
}

}  // namespace offramp
