#include "common/app/settings/sections/slab_settings.hpp"

#include "common/app/settings/effects.hpp"
#include "common/app/settings/setting_checks.hpp"
#include "common/app/settings/setting_group.hpp"

namespace offramp {

void describe_slabs(SettingGroup& group) {
    SettingGroup rare = group.advanced();
    group.text("device", &SlabSettings::device, kMemory, "DEVICE", "auto, cpu, cuda, or cuda:N (0 to 999)",
               "Where the model runs", check_device);
    group.whole("slabs", &SlabSettings::slabs, kMemory, {2, 4096, "auto"}, "Shared-memory slabs");
    rare.whole("samples-per-slab", &SlabSettings::samples_per_slab, kMemory, {1, 65536, "auto"},
               "Maximum samples of a batch per slab");
    rare.whole("batches-per-slab", &SlabSettings::batches_per_slab, kMemory, {1, 4096, "auto"},
               "Maximum whole batches per slab, for small batches");
    rare.seconds("max-delay-seconds", &SlabSettings::max_delay_seconds, kRuntime, 0, 60,
                 "How long a batch waits for others to share its slab");
    rare.on_off("allow-unpinned", &SlabSettings::allow_unpinned, kRuntime,
                "Continue, more slowly, when slabs cannot be page-locked");
    group.word("when-full", &SlabSettings::when_full, kMemory, {"block", "drop", "spill"},
               "When no slab is free: block the model, drop and list the output, or spill the oldest waiting slab to "
               "the disk");
    rare.path("spill-dir", &SlabSettings::spill_dir, kMemory, "FOLDER", "a path",
              "Folder for slabs of --when-full spill; by default in the run directory");
}

void describe_delivery(SettingGroup& group) {
    group.seconds("visibility-timeout", &DeliverySettings::visibility_timeout, kRuntime, 0.1, 86400,
                  "Time without progress after which another consumer gets the slab");
    group.on_off("kill-stalled", &DeliverySettings::kill_stalled, kRuntime,
                 "Kill (SIGKILL) a consumer that exceeds the visibility timeout");
    group.whole("max-failures", &DeliverySettings::max_failures, kRuntime, {1, 1000, ""},
                "Failed deliveries before a slab becomes a dead letter");
    group.whole("window", &DeliverySettings::window, kRuntime, {1, 256, "auto"},
                "Slabs that a consumer holds concurrently");
    group.text("consumer-user", &DeliverySettings::consumer_user, kMemory, "USER", "a user's name",
               "User that consumers run as", check_user);
}

}  // namespace offramp
