#include "common/settings/sections/actions_settings.hpp"

#include "common/settings/setting_group.hpp"

namespace offramp {

void describe_actions(SettingGroup& group) {
    SettingGroup rare = group.advanced();
    group.action("print-config", &ActionSettings::print_config, "Print the configuration and exit");
    group.action("list", &ActionSettings::list, "Print the known models, sources and processors and exit");
    rare.action("probe", &ActionSettings::probe, "Describe this machine as JSON and exit");
    rare.action("sweep", &ActionSettings::sweep, "Remove shared memory of dead runs from /dev/shm and exit");
}

}  // namespace offramp
