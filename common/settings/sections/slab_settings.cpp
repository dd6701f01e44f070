#include "common/settings/sections/slab_settings.hpp"

#include "common/settings/effects.hpp"
#include "common/settings/setting_checks.hpp"
#include "common/settings/setting_group.hpp"

namespace offramp {

void describe_slabs(SettingGroup& group) {
    group.text("device", &SlabSettings::device, kMemory, "DEVICE", "auto, cpu, cuda, or cuda:N (0 to 999)",
               "Where the model runs", check_device);
    group.whole("slabs", &SlabSettings::slabs, kMemory, {2, 4096, "auto"}, "Shared-memory slabs");
    group.whole("samples-per-slab", &SlabSettings::samples_per_slab, kMemory, {1, 65536, "auto"},
                "Samples of a batch that one slab holds at most");
    group.whole("batches-per-slab", &SlabSettings::batches_per_slab, kMemory, {1, 4096, "auto"},
                "Whole small batches that share a slab at most");
    group.seconds("max-delay-seconds", &SlabSettings::max_delay_seconds, kRuntime, 0, 60,
                  "A batch waits at most so long for others to share its slab");
    group.on_off("allow-unpinned", &SlabSettings::allow_unpinned, kRuntime,
                 "Go on, slowly, when slabs cannot be page-locked");
    group.word("when-full", &SlabSettings::when_full, kMemory, {"block", "drop", "spill"},
               "No slab is free: the model waits; the output is dropped and listed; or the oldest waiting slab goes to "
               "the disk until later");
    group.path("spill-dir", &SlabSettings::spill_dir, kMemory, "FOLDER", "a path",
               "Where --when-full spill keeps slabs; by default in the run directory");
}

}  // namespace offramp
