#pragma once

#include <span>
#include <string_view>

namespace offramp {

// A TOML file beside the code that reads its settings: tables [[setting]] (declared_setting.hpp) and, for a processor,
// [results] (processor_results.hpp). CMake compiles all of them into every program (offramp_settings_files).
struct CatalogueSource {
    std::string_view file;     // "consumer/processors/plugins/image.toml"
    std::string_view plug_in;  // "image"; empty: it is not a plug-in's file
    std::string_view text;     // TOML

    static std::span<const CatalogueSource> all();
};

}  // namespace offramp
