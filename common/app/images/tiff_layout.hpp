#pragma once

#include "common/app/images/tiff_handle.hpp"
#include "common/app/images/tiff_pixels.hpp"

namespace offramp {

// The meaning of the numbers of a TIFF's page, after checking that it is supported. Has libtiff give RGB where JPEG has
// other colours. Errors: UnreadableItem: a compression, colours or numbers that are not read, with the remedy; damaged.
TiffColors read_tiff_layout(const TiffHandle& handle);

}  // namespace offramp
