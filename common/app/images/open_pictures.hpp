#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "common/app/images/picture_list.hpp"
#include "common/app/images/still_wanted.hpp"

namespace offramp {

// Lists what `input` names, as that source reads it: "images", "jsonl", "webdataset", one that gives_pictures()
// (common/app/settings). `listed`: a file with the listing of a folder of images (text_of_listed_files()), which is not
// walked then; empty: none. Errors: ConfigError NoInput: a missing input, no permission, nothing in it; BadInput: not
// what the source reads.
std::unique_ptr<PictureList> open_pictures(std::string_view source, const std::string& input,
                                           const StillWanted& still_wanted = {}, const std::string& listed = {});

}  // namespace offramp
