#include "producer/runner/sources/result_names.hpp"

#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "common/base/error.hpp"

namespace offramp {
namespace {

// `longer` is BETWEEN.SHORTER.
struct Nested {
    std::string_view longer, shorter;
    std::string between;  // with a dot in front
};

std::vector<Nested> nested_names(std::span<const TensorSpec> outputs) {
    std::vector<Nested> nested;
    for (const TensorSpec& longer : outputs)
        for (const TensorSpec& shorter : outputs)
            if (longer.name.size() > shorter.name.size() + 1 && longer.name.ends_with("." + shorter.name))
                nested.push_back({longer.name, shorter.name,
                                  "." + longer.name.substr(0, longer.name.size() - shorter.name.size() - 1)});
    return nested;
}

}  // namespace

void require_distinct_results(const BatchSource& source, std::span<const TensorSpec> outputs) {
    const std::vector<Nested> nested = nested_names(outputs);
    if (nested.empty() || source.max_key_bytes() == 0) return;
    std::unordered_set<std::string_view> keys;
    for (std::uint64_t item = 0; item < source.items(); ++item) keys.insert(source.key(item));
    for (std::uint64_t item = 0; item < source.items(); ++item)
        for (const Nested& names : nested) {
            const std::string key(source.key(item));
            if (!keys.contains(key + names.between)) continue;
            throw ConfigError("two results would be called '" + key + "." + std::string(names.longer) +
                                  "': the output '" + std::string(names.longer) + "' of the item '" + key +
                                  "', and the output '" + std::string(names.shorter) + "' of the item '" + key +
                                  names.between + "'",
                              "Rename one of the two items, or give the outputs other names (outputs = \"...\" in the "
                              "metadata beside the model)");
        }
}

}  // namespace offramp
