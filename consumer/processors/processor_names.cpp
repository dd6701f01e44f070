#include "consumer/processors/processor_names.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "common/app/settings/declared_setting.hpp"
#include "common/app/settings/nearest_word.hpp"
#include "common/app/settings/processor_results.hpp"
#include "common/app/settings/processor_spec.hpp"
#include "common/base/error.hpp"
#include "common/base/redacted_url.hpp"
#include "consumer/processors/processor.hpp"
#include "consumer/sinks/http/http_headers.hpp"

namespace offramp {
namespace {

void require_known(const std::string& name, std::span<const std::string_view> made_besides) {
    if (ProcessorSpec::of(name)) return;
    std::vector<std::string> known(made_besides.begin(), made_besides.end());
    std::string list;
    for (const ProcessorEntry& entry : ProcessorEntry::all()) {
        known.emplace_back(entry.name);
        list += (list.empty() ? "" : ", ") + known.back();
    }
    if (std::ranges::find(known, name) != known.end()) return;
    const auto nearest = nearest_word(name, known);
    throw ConfigError("--processor '" + name + "' is unknown", (nearest ? "Did you mean " + *nearest + "? " : "") +
                                                                   "Known: " + list + "; several with commas between");
}

// The addresses that the processor declares. A missing one is the run's.
void require_addresses(const std::string& processor, const CatalogueValues& values) {
    for (const DeclaredSetting& setting : DeclaredSetting::all()) {
        if (setting.plug_in != processor) continue;
        if (setting.kind == DeclaredSetting::Kind::Url) require_no_credentials(values.text(setting.flag));
        if (setting.kind == DeclaredSetting::Kind::Header && !is_left_out(values.text(setting.flag)))
            read_http_headers(values.text(setting.flag));
    }
}

}  // namespace

void require_processors(const RunConfig& config, std::span<const std::string_view> made_besides) {
    if (config.processor == "auto") return;
    for (const std::string& name : config.processors()) require_known(name, made_besides);
    for (const ResultSettings& own : own_results(config)) {  // refuses a repeated name
        require_addresses(own.processor, config.catalogue);
        if (!tables_of(own).empty() && !own.has_database())
            throw ConfigError("--processor " + own.processor + " needs --sink, and none is given",
                              "Give the database: --sink postgres://USER@HOST/DATABASE");
    }
}

}  // namespace offramp
