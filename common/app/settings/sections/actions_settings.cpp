#include "common/app/settings/sections/actions_settings.hpp"

#include "common/app/settings/setting_group.hpp"

namespace offramp {

void describe_actions(SettingGroup& group) {
    group.action("print-config", &ActionSettings::print_config, "Print the configuration and exit");
    group.action("list", &ActionSettings::list, "Print the known models, sources and processors and exit");
}

}  // namespace offramp
