#include "common/settings/sections/run_settings.hpp"

#include <limits>

#include "common/settings/effects.hpp"
#include "common/settings/profile.hpp"
#include "common/settings/setting_checks.hpp"
#include "common/settings/setting_group.hpp"

namespace offramp {

void describe_run(SettingGroup& group) {
    Setting& run_dir = group.path("run-dir", &RunSettings::run_dir, kProgram, "FOLDER", "a path",
                                  "Sockets, status and logs of the run");
    // Its sockets are named by it.
    run_dir.set = [as_given = run_dir.set, whole = run_dir.anywhere](RunConfig& config, const std::string& text) {
        const auto problem = as_given(config, text);
        return problem ? problem : as_given(config, whole(text));
    };
    group.text("run-id", &RunSettings::run_id, kProgram, "ID", "letters, digits, '.', '_' and '-', at most 48 bytes",
               "Names the shared-memory objects", check_run_id);
    group.word("profile", &RunSettings::profile, kProgram, profile_names(), "Settings that go together");
    group.whole_or_bounds("consumers", &RunSettings::consumers, kRuntime, {1, 64, "auto"},
                          "Consumer processes; 'auto' and MIN..MAX: as many as the run needs, seen to while it runs");
    group.word("log-level", &RunSettings::log_level, kProgram, {"trace", "debug", "info", "warning", "error", "off"},
               "Least important lines that are logged");
    group.log_format("log-format", &RunSettings::log_format, kProgram, "Form of the log's lines");
    group.path("log-file", &RunSettings::log_file, kProgram, "FILE", "a path", "Log here as well as to standard error");
    group.whole("lifeline-fd", &RunSettings::lifeline_fd, kProgram, {-1, std::numeric_limits<int>::max(), ""},
                "Pipe whose end of file says that the launcher is gone; -1: none");
    group.whole("producer-restarts", &RunSettings::producer_restarts, kRuntime, {0, 1000, ""},
                "How often a producer that dies is started again, to take over what it left");
    group.seconds(
        "producer-wait-seconds", &RunSettings::producer_wait_seconds, kRuntime, 0, 86400,
        "A consumer without a launcher waits so long for another producer when its own has died; 0: it ends with it");
    group.path("turn", &RunSettings::turn, kProgram, "FILE", "a path",
               "Compute only while no other program that names this file does; all else goes on meanwhile");
    group.action(
        "recover", &RunSettings::recover,
        "Take over the run in --run-dir whose producer died; the other flags must be those it was started with");
}

}  // namespace offramp
