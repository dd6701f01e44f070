#include "common/app/settings/sections/measuring_settings.hpp"

#include "common/app/settings/effects.hpp"
#include "common/app/settings/setting_checks.hpp"
#include "common/app/settings/setting_group.hpp"

namespace offramp {

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
