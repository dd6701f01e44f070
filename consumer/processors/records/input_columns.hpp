#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "consumer/processors/pictures/input_index.hpp"

namespace offramp {

// What the run's input says of its samples beside their names and pictures, found by the samples' keys: the further
// members of a manifest's line. For a processor or sink whose results have rows, to hand them through. Owns the list of
// the input. Thread: one. Blocks: on the disk.
class InputColumns {
  public:
    // `processor`: who asks, for messages. Errors: those of InputIndex.
    InputColumns(const InputSettings& config, std::string_view processor);

    // The text of a JSON object on one line, its members in the order of their names; "{}" when the input has no
    // columns. Errors: Error with NoInput when the input has no such sample any more, or it cannot be read any more.
    std::string of(std::string_view key) const;
    // The same of a sample that was skipped; "{}" also when the input names no such sample, or its line is what could
    // not be read.
    std::string of_skipped(std::string_view key) const;

  private:
    InputIndex input_;
};

// Nothing when the run's input is none that can have columns: then it is not listed. Errors: those of InputIndex.
std::optional<InputColumns> columns_of_input(const InputSettings& config, std::string_view processor);

}  // namespace offramp
