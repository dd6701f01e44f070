#include "consumer/processors/input_columns.hpp"

#include "common/base/error.hpp"
#include "common/images/unreadable_item.hpp"
#include "consumer/sinks/output_name.hpp"

namespace offramp {

InputColumns::InputColumns(const RunConfig& config, std::string_view processor) : input_(config, processor) {}

std::string InputColumns::of(std::string_view key) const {
    const std::uint64_t number = input_.number_of(key);
    try {
        return input_.pictures().columns(number);
    } catch (const UnreadableItem& problem) {
        throw Error(ExitCode::NoInput,
                    "the columns of the sample '" + escaped(key) + "', " + input_.pictures().origin(number) +
                        ", cannot be read any more: " + problem.what(),
                    "Leave the input as it is while a run reads it");
    }
}

}  // namespace offramp
