#pragma once

#include <memory>
#include <string>

#include "common/app/images/picture_list.hpp"
#include "common/app/settings/sections.hpp"
#include "common/app/texts/text_table.hpp"
#include "producer/runner/sources/batch_source.hpp"

namespace offramp {

// The listing of an --input. Both are null if the input is neither pictures nor a table of texts, the source has no
// input, or the input has arrays, for which mismatches with the model are reported first.
struct OpenedInput {
    std::shared_ptr<PictureList> pictures;
    std::shared_ptr<TextTable> texts;
    std::shared_ptr<const ItemShapes> shapes = nullptr;  // of items that keep their own shapes
};

// Checks that an --input has contents, before a model is loaded for it. Lists pictures and tables of texts, and the
// source then uses that list (SourceOptions); reads only the beginning of lines and arrays. Blocks: on the disk.
// Errors: ConfigError NoInput / BadInput, as from the source itself.
OpenedInput open_input(const InputSettings& config, const StillWanted& still_wanted);

// Errors: ConfigError lists the known names, and suggests the most similar one.
const SourceEntry& source_named(const std::string& name);

// Checks that an --input exists, before anything is opened. Blocks: on the disk. Errors: ConfigError (NoInput) suggests
// the most similar name beside it.
void require_input(const std::string& input);

}  // namespace offramp
