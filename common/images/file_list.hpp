#pragma once

#include <string>
#include <vector>

#include "common/images/still_wanted.hpp"

namespace offramp {

// The image files that an --input names, in a stable order, and where they lie. Only names: no file is
// opened.
struct FileList {
    std::string description;         // "1200 files under /data/photos"
    std::string root;                // what relative names start at
    std::vector<std::string> names;  // relative to root, or absolute (of a list file)

    std::string path(std::size_t index) const;
    // The names as make_item_keys wants them: those under root relative to it.
    std::vector<std::string> key_names() const;
};

// `input` is a folder (walked to its depths, hidden entries left out, links followed but each folder taken once; files
// by their extension, sorted bytewise by relative path; a folder that may not be listed stands in the list itself, so
// that it is reported), a list file (one path a line, relative to the list's folder, blank lines and those that begin
// with # skipped), or one image. Errors: ConfigError NoInput: no such path, no permission, nothing in it; BadInput:
// neither of the three.
FileList list_image_files(const std::string& input, const StillWanted& still_wanted = {});

}  // namespace offramp
