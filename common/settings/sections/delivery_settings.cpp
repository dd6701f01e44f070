#include "common/settings/sections/delivery_settings.hpp"

#include "common/settings/effects.hpp"
#include "common/settings/setting_checks.hpp"
#include "common/settings/setting_group.hpp"

namespace offramp {

void describe_delivery(SettingGroup& group) {
    group.seconds("visibility-timeout", &DeliverySettings::visibility_timeout, kRuntime, 0.1, 86400,
                  "A consumer without progress for so long loses its slab to another one");
    group.on_off("kill-stalled", &DeliverySettings::kill_stalled, kRuntime,
                 "Kill a consumer that lost its slab so (SIGKILL)");
    group.whole("max-failures", &DeliverySettings::max_failures, kRuntime, {1, 1000, ""},
                "Consumers that a slab may take down before it is dead-lettered");
    group.whole("window", &DeliverySettings::window, kRuntime, {1, 256, "auto"},
                "Slabs that a consumer holds at once");
    group.text("consumer-user", &DeliverySettings::consumer_user, kMemory, "USER", "a user's name",
               "Consumers run as this user", check_user);
}

}  // namespace offramp
