#include "consumer/processors/processor_names.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "common/base/error.hpp"
#include "common/base/redacted_url.hpp"
#include "common/settings/nearest_word.hpp"
#include "common/settings/processor_results.hpp"
#include "consumer/processors/processor.hpp"
#include "consumer/sinks/http/http_headers.hpp"

namespace offramp {
namespace {

void require_known(const std::string& name, std::span<const std::string_view> made_besides) {
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

// What was not given is the run's.
void require_address(const RunConfig& config) {
    require_no_credentials(config.catalogue.text("http-url"));
    const std::string& header = config.catalogue.text("http-header");
    if (!is_left_out(header)) read_http_headers(header);
}

}  // namespace

void require_processors(const RunConfig& config, std::span<const std::string_view> made_besides) {
    if (config.processor == "auto") return;
    for (const std::string& name : config.processors()) require_known(name, made_besides);
    for (const RunConfig& own : configs_of(config)) {  // which refuses a name that stands twice
        if (own.processor == "http") require_address(own);
        if (!tables_of(own).empty() && !own.has_database())
            throw ConfigError("--processor " + own.processor + " needs --sink, and none is given",
                              "Give the database: --sink postgres://USER@HOST/DATABASE");
    }
}

}  // namespace offramp
