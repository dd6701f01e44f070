#pragma once

#include <memory>

#include "common/app/images/file_window.hpp"
#include "common/app/images/picture_rows.hpp"

namespace offramp {

// Rows of a JPEG file that is stored upright. Errors: those of PictureRows; more than kMaxImagePixels if the decoder
// must hold the whole picture.
std::unique_ptr<PictureRows> rows_of_jpeg(FileWindow file);

}  // namespace offramp
