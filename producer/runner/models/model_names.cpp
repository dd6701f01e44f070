#include "producer/runner/models/model_names.hpp"

#include <algorithm>

#include "common/app/settings/nearest_word.hpp"
#include "common/base/error.hpp"
#include "producer/runner/models/model_file.hpp"

namespace offramp {

std::vector<std::string> built_in_model_names() {
    std::vector<std::string> names = model_plugin_names();
    names.emplace_back("copy");
    std::ranges::sort(names);
    return names;
}

void require_model_name(const std::string& model) {
    if (is_model_file(model)) return;
    const std::vector<std::string> known = built_in_model_names();
    if (std::ranges::find(known, model) != known.end()) return;
    const auto nearest = nearest_word(model, known);
    std::string list;
    for (const std::string& name : known) list += (list.empty() ? "" : ", ") + name;
    throw ConfigError("--model '" + model + "' is unknown", (nearest ? "Did you mean " + *nearest + "? " : "") +
                                                                "Known: " + list +
                                                                "; or the path of a .pt2, .pt or .safetensors file");
}

}  // namespace offramp
