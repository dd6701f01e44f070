#pragma once

#include <cstddef>
#include <vector>

#include "common/app/images/geometry.hpp"
#include "common/app/images/orientation.hpp"

namespace offramp {

// A picture that a GPU can decode, in its file's bytes. The vector keeps its memory for the next picture.
struct EncodedPicture {
    std::vector<std::byte> file;  // up to its end marker; empty: no picture
    ImageSize stored;             // as stored in the file
    Orientation orientation = Orientation::Upright;
    PictureFrame frame{ImageSize{}};
};

}  // namespace offramp
