#pragma once

#include "common/app/images/tiff_handle.hpp"
#include "common/app/images/tiff_pixels.hpp"

namespace offramp {

// What the numbers of a TIFF's page mean, once it has shown that it is one of those that are read. Has libtiff give RGB
// where JPEG has other colours. Errors: UnreadableItem: a compression, colours or numbers that are not read, with the
// remedy; damaged.
TiffColors read_tiff_layout(const TiffHandle& handle);

}  // namespace offramp
