// offramp-consumer with a processor more, "crash-on-item", which does what the processor named in OFFRAMP_TEST_THEN does (default: none)
// when it does not die. With OFFRAMP_TEST_GATE any processor's slabs wait at a gate, with OFFRAMP_TEST_RECHECK_FILE they are read again
// while they are held.

#include <memory>
#include <string>
#include <utility>

#include "common/base/end_signals.hpp"
#include "common/base/exit_code.hpp"
#include "common/base/log.hpp"
#include "common/base/trace_recording.hpp"
#include "common/config/run_config.hpp"
#include "consumer/processors/finish.hpp"
#include "consumer/processors/processor.hpp"
#include "consumer/session/consumer_program.hpp"
#include "consumer/session/retry_program.hpp"
#include "tests/support/faulty_consumer/crash_on_item.hpp"
#include "tests/support/faulty_consumer/gated.hpp"
#include "tests/support/faulty_consumer/rechecked.hpp"
#include "tests/support/faulty_consumer/test_setting.hpp"

namespace offramp::faulty {
namespace {

std::unique_ptr<Processor> make_faulty_processor(const RunConfig& config) {
    const ProcessorOptions options{.config = &config};
    if (config.processor == "crash-on-item")
        return std::make_unique<CrashOnItem>(make_processor(text_setting("OFFRAMP_TEST_THEN", "none"), options));
    auto processor = make_processor(config.processor, options);
    if (!text_setting("OFFRAMP_TEST_GATE", "").empty()) return std::make_unique<Gated>(std::move(processor));
    if (!text_setting("OFFRAMP_TEST_RECHECK_FILE", "").empty()) return std::make_unique<Rechecked>(std::move(processor));
    return processor;
}

int run_consumer(int argc, const char* const* argv) {
    constexpr const char* kProgram = "offramp-consumer";  // its settings are the real one's
    const EndSignals signals;
    const auto config = parse_run_config(argc, argv, kProgram);
    if (!config) return to_int(ExitCode::Ok);
    start_logging(kProgram, config->log_level, config->log_format, config->log_file);
    if (config->finish) {
        finish_run(*config);
        return to_int(ExitCode::Ok);
    }
    if (config->start_over) {
        start_over(*config);
        return to_int(ExitCode::Ok);
    }
    if (!config->trace_dir.empty()) start_recording(config->trace_dir, "consumer", config->rung);
    const auto processor = make_faulty_processor(*config);
    const int code = config->retry.empty() ? serve_run(*config, signals, *processor) : retry_payload(config->retry, *processor);
    save_recording();
    return code;
}

}  // namespace
}  // namespace offramp::faulty

int main(int argc, char** argv) {
    return offramp::exit_code_of([&] { return offramp::faulty::run_consumer(argc, argv); });
}
