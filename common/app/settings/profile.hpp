#pragma once

#include <string>
#include <vector>

#include "common/app/settings/run_config.hpp"

namespace offramp {

std::vector<std::string> profile_names();

// Puts the profile's settings into `config`. The caller has checked that the name is known.
void apply_profile(const std::string& name, RunConfig& config);

}  // namespace offramp
