#include "common/app/settings/declarations.hpp"

#include <algorithm>

#include "common/base/error.hpp"

namespace offramp {
namespace {

std::string name_of(const CatalogueSource& source) { return "the settings in " + std::string(source.file); }

}  // namespace

TomlDocument declarations_of(const CatalogueSource& source) {
    TomlDocument document = read_toml_of_tables(source.text, name_of(source), "setting", "results");
    if (!document.top.empty())
        throw ConfigError(name_of(source) + ":" + std::to_string(document.top.front().line) + ": '" +
                              document.top.front().key + "' is above the first [[setting]] or [results]",
                          "Begin each setting with [[setting]], and a processor's results with [results]",
                          ErrorKind::Config);
    return document;
}

std::vector<std::string> names_in(std::string_view text) {
    std::vector<std::string> names;
    while (!text.empty()) {
        const std::size_t comma = std::min(text.find(','), text.size());
        std::string_view name = text.substr(0, comma);
        text.remove_prefix(std::min(comma + 1, text.size()));
        while (name.starts_with(' ')) name.remove_prefix(1);
        names.emplace_back(name);
    }
    return names;
}

void refuse_declaration(const CatalogueSource& source, std::size_t line, const std::string& problem) {
    throw ConfigError(name_of(source) + ":" + std::to_string(line) + ": " + problem,
                      "See common/app/settings/declared_setting.hpp for the format", ErrorKind::Config);
}

}  // namespace offramp
