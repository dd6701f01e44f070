#include <array>

#include "common/app/settings/declared_setting.hpp"
#include "common/app/settings/setting_group.hpp"

namespace offramp {
namespace {

struct Section {
    const char* name;
    void (*describe)(SettingGroup& group);
};

// In the order of --help.
constexpr std::array<Section, 8> kSections{{{"The run", describe_run},
                                            {"Input", describe_input},
                                            {"Model", describe_model},
                                            {"Slabs and egress", describe_slabs},
                                            {"Measuring", describe_measuring},
                                            {"Delivery", describe_delivery},
                                            {"Consumers", describe_results},
                                            {"Instead of a run", describe_actions}}};

}  // namespace

std::vector<Setting> make_settings() {
    std::vector<Setting> table;
    for (const Section& section : kSections) {
        SettingGroup group(table, section.name), rare = group.advanced();
        section.describe(group);
        for (const DeclaredSetting& declared : DeclaredSetting::all())
            if (declared.group == section.name) describe_declared(declared, declared.advanced ? rare : group);
    }
    return table;
}

}  // namespace offramp
