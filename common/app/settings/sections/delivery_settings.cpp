#include "common/app/settings/sections/delivery_settings.hpp"

#include "common/app/settings/effects.hpp"
#include "common/app/settings/setting_checks.hpp"
#include "common/app/settings/setting_group.hpp"

namespace offramp {

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
