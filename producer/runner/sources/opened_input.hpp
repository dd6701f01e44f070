#pragma once

#include <memory>

#include "common/images/picture_list.hpp"
#include "common/images/still_wanted.hpp"
#include "common/settings/sections/input_settings.hpp"
#include "common/texts/text_table.hpp"

namespace offramp {

// What an --input was listed as. Both null where the input is neither, or the source has none, or where there are
// arrays instead: what the model takes is then told first.
struct OpenedInput {
    std::shared_ptr<PictureList> pictures;
    std::shared_ptr<TextTable> texts;
};

// Sees that there is something in an --input, before a model is loaded for it: pictures and tables of texts are listed,
// and the list is what the source then takes (SourceOptions); of lines and arrays only the beginning is looked at.
// Blocks: on the disk. Errors: ConfigError NoInput / BadInput, as from the source itself.
OpenedInput open_input(const InputSettings& config, const StillWanted& still_wanted);

}  // namespace offramp
