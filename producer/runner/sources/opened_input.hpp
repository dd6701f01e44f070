#pragma once

#include <memory>

#include "common/app/images/picture_list.hpp"
#include "common/app/images/still_wanted.hpp"
#include "common/app/settings/sections/input_settings.hpp"
#include "common/app/texts/text_table.hpp"

namespace offramp {

// The listing of an --input. Both are null if the input is neither, the source has none, or it has arrays: mismatches
// with the model are then reported first.
struct OpenedInput {
    std::shared_ptr<PictureList> pictures;
    std::shared_ptr<TextTable> texts;
};

// Checks that an --input has contents, before a model is loaded for it. Pictures and tables of texts are listed, and
// the source then takes that list (SourceOptions); of lines and arrays only the beginning is read. Blocks: on the disk.
// Errors: ConfigError NoInput / BadInput, as from the source itself.
OpenedInput open_input(const InputSettings& config, const StillWanted& still_wanted);

}  // namespace offramp
