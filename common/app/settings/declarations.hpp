#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "common/app/settings/catalogue_source.hpp"
#include "common/app/settings/toml.hpp"

// The tables of a settings file, for readers that make settings and processors' results of them.
namespace offramp {

// Tables [[setting]], and at most one [results]. Errors: ConfigError names file and line, for other tables and for keys
// above the first one.
TomlDocument declarations_of(const CatalogueSource& source);

// "mask-png, npy" as the two names.
std::vector<std::string> names_in(std::string_view text);

// ConfigError: file, line, problem, and the page about declarations.
[[noreturn]] void refuse_declaration(const CatalogueSource& source, std::size_t line, const std::string& problem);

}  // namespace offramp
