#pragma once

#include <span>
#include <string_view>

#include "common/app/settings/run_config.hpp"

namespace offramp {

// Checks of config.processor before a run starts: that each name is one of the table's or of `made_besides`, occurs
// once, has the --sink that it needs, and only valid addresses. "auto" is the producer's to choose. Errors: ConfigError
// suggests the nearest name.
void require_processors(const RunConfig& config, std::span<const std::string_view> made_besides = {});

}  // namespace offramp
