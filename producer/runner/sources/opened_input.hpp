#pragma once

#include <memory>

#include "common/images/picture_list.hpp"
#include "common/images/still_wanted.hpp"
#include "common/settings/sections/input_settings.hpp"

namespace offramp {

// Sees that there is something in an --input, before a model is loaded for it: pictures are listed, and the list is
// what the source then takes (SourceOptions); of lines and arrays only the beginning is looked at. Null where the input
// is no pictures, or the source has none, or where there are arrays instead: what the model takes is then told first.
// Blocks: on the disk. Errors: ConfigError NoInput / BadInput, as from the source itself.
std::shared_ptr<PictureList> open_input(const InputSettings& config, const StillWanted& still_wanted);

}  // namespace offramp
