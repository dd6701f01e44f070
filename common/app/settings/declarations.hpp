#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/app/settings/toml.hpp"

// The tables of a settings file, for readers that make settings and processors' results of them.
namespace offramp {

// A TOML file beside the code that reads its settings: tables [[setting]] (declared_setting.hpp) and, for a processor,
// [results] (processor_results.hpp). CMake compiles all of them into every program (offramp_settings_files).
struct CatalogueSource {
    std::string_view file;     // "consumer/processors/plugins/image.toml"
    std::string_view plug_in;  // "image"; empty: it is not a plug-in's file
    std::string_view text;     // TOML

    static std::span<const CatalogueSource> all();
};

// Tables [[setting]], and at most one [results]. Errors: ConfigError names file and line, for other tables and for keys
// above the first one.
TomlDocument declarations_of(const CatalogueSource& source);

// "mask-png, npy" as the two names.
std::vector<std::string> names_in(std::string_view text);

// ConfigError: file, line, problem, and the page about declarations.
[[noreturn]] void refuse_declaration(const CatalogueSource& source, std::size_t line, const std::string& problem);

}  // namespace offramp
