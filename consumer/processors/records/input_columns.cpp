#include "consumer/processors/records/input_columns.hpp"

#include "common/base/error.hpp"
#include "common/images/open_pictures.hpp"
#include "common/images/unreadable_item.hpp"
#include "common/settings/source_of_input.hpp"
#include "consumer/sinks/files/output_name.hpp"

namespace offramp {

InputColumns::InputColumns(const InputSettings& config, std::string_view processor) : input_(config, processor) {}

std::string InputColumns::of(std::string_view key) const {
    const std::uint64_t number = input_.number_of(key);
    try {
        return input_.pictures().columns(number);
    } catch (const UnreadableItem& problem) {
        throw Error(ErrorKind::NoInput,
                    "the columns of the sample '" + escaped(key) + "', " + input_.pictures().origin(number) +
                        ", cannot be read any more: " + problem.what(),
                    "Leave the input as it is while a run reads it");
    }
}

std::string InputColumns::of_skipped(std::string_view key) const {
    const auto number = input_.find(key);
    if (!number) return "{}";
    try {
        return input_.pictures().columns(*number);
    } catch (const UnreadableItem&) {
        return "{}";
    }
}

std::optional<InputColumns> columns_of_input(const InputSettings& config, std::string_view processor) {
    if (!gives_columns(source_of_input(config.source, config.input))) return std::nullopt;
    return std::optional<InputColumns>(std::in_place, config, processor);
}

}  // namespace offramp
