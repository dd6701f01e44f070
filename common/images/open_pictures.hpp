#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "common/images/picture_list.hpp"
#include "common/images/still_wanted.hpp"

namespace offramp {

// True for the sources whose items are pictures: "images", "jsonl", "webdataset".
bool gives_pictures(std::string_view source);

// True for those of them whose items can have columns (PictureList::columns): "jsonl", "webdataset".
bool gives_columns(std::string_view source);

// Lists what `input` names, as that source reads it. Errors: ConfigError NoInput: no such input, no permission, nothing in it; BadInput:
// not what the source reads.
std::unique_ptr<PictureList> open_pictures(std::string_view source, const std::string& input, const StillWanted& still_wanted = {});

}  // namespace offramp
