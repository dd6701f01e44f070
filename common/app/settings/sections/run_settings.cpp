#include "common/app/settings/sections/run_settings.hpp"

#include <limits>

#include "common/app/settings/effects.hpp"
#include "common/app/settings/run_config.hpp"
#include "common/app/settings/setting_checks.hpp"
#include "common/app/settings/setting_group.hpp"

namespace offramp {

void describe_run(SettingGroup& group) {
    SettingGroup rare = group.advanced(), of_the_launcher = group.of_the_launcher();
    Setting& run_dir = group.path("run-dir", &RunSettings::run_dir, kProgram, "FOLDER", "a path",
                                  "Sockets, status and logs of the run");
    // The sockets' paths begin with the run directory.
    run_dir.set = [as_given = run_dir.set, whole = run_dir.anywhere](RunConfig& config, const std::string& text) {
        const auto problem = as_given(config, text);
        return problem ? problem : as_given(config, whole(text));
    };
    rare.text("run-id", &RunSettings::run_id, kProgram, "ID", "letters, digits, '.', '_' and '-', at most 48 bytes",
              "Names the shared-memory objects", check_run_id);
    group.word("profile", &RunSettings::profile, kProgram, profile_names(), "Named group of settings");
    group.whole_or_bounds("consumers", &RunSettings::consumers, kRuntime, {1, 64, "auto"},
                          "Consumer processes; 'auto' and MIN..MAX: scaled to the load during the run");
    rare.word("log-level", &RunSettings::log_level, kProgram, {"trace", "debug", "info", "warning", "error", "off"},
              "Lowest severity to log");
    group.log_format("log-format", &RunSettings::log_format, kProgram, "Format of log lines");
    rare.path("log-file", &RunSettings::log_file, kProgram, "FILE", "a path",
              "Log to this file in addition to standard error");
    of_the_launcher.whole("lifeline-fd", &RunSettings::lifeline_fd, kProgram, {-1, std::numeric_limits<int>::max(), ""},
                          "Pipe that closes when the launcher exits; -1: none");
    rare.whole("producer-restarts", &RunSettings::producer_restarts, kRuntime, {0, 1000, ""},
               "Maximum restarts of a producer that dies; the new one recovers its run");
    rare.seconds(
        "producer-wait-seconds", &RunSettings::producer_wait_seconds, kRuntime, 0, 86400,
        "How long a consumer without a launcher waits for a new producer when its own has died; 0: exit immediately");
    of_the_launcher.path(
        "turn", &RunSettings::turn, kProgram, "FILE", "a path",
        "File to lock while computing, so that programs that share it do not compute at the same time");
}

void describe_actions(SettingGroup& group) {
    group.action("print-config", &ActionSettings::print_config, "Print the configuration and exit");
    group.action("list", &ActionSettings::list, "Print the known models, sources and processors and exit");
}

void describe_measuring(SettingGroup& group) {
    SettingGroup rare = group.advanced();
    rare.whole("warmup-batches", &MeasuringSettings::warmup_batches, kRuntime, {0, kAnyNumber, ""},
               "First batches excluded from the steady rates");
    rare.on_off("drain-warmup", &MeasuringSettings::drain_warmup, kRuntime,
                "Deliver all warm-up batches before the measured ones start");
    rare.whole("measure-limits", &MeasuringSettings::measure_limits, kRuntime, {0, kAnyNumber, ""},
               "Batches of compute alone, and of copies alone, to measure in the same run");
    rare.whole("profile-batches", &MeasuringSettings::profile_batches, kRuntime, {0, kAnyNumber, ""},
               "Batches after the warm-up between cudaProfilerStart and cudaProfilerStop");
    rare.path("trace-dir", &MeasuringSettings::trace_dir, kRuntime, "FOLDER", "a path",
              "Folder where each program writes its time ranges when it ends");
    rare.seconds("status-seconds", &MeasuringSettings::status_seconds, kRuntime, 0.01, 3600,
                 "Interval between updates of status.json");
}

}  // namespace offramp
