#pragma once

#include <memory>

#include "common/app/images/file_window.hpp"
#include "common/app/images/picture_rows.hpp"

namespace offramp {

// Rows of a PNG file that is not interlaced. `size`: read_png_size() of it. Errors: those of PictureRows.
std::unique_ptr<PictureRows> rows_of_png(FileWindow file, ImageSize size);

}  // namespace offramp
