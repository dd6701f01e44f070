#pragma once

namespace offramp {

class SettingGroup;

// Actions instead of a run: on the command line only, never part of a printed configuration.
struct ActionSettings {
    bool print_config = false;
    bool list = false;  // names of models, sources, processors

    bool operator==(const ActionSettings&) const = default;
};

void describe_actions(SettingGroup& group);

}  // namespace offramp
