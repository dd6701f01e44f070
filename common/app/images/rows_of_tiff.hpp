#pragma once

#include <cstdint>
#include <memory>

#include "common/app/images/picture_rows.hpp"
#include "common/app/images/tiff.hpp"

namespace offramp {

constexpr std::uint64_t kMostHeldOfTiff = std::uint64_t{256} << 20U;

// Rows of a TIFF that is stored upright. Skipped rows are not decoded, as far as strips begin after them. In tiles,
// rows of one row of them are held, of so many bytes at most: where it has more, its tiles are decoded several times.
// Errors: those of PictureRows.
std::unique_ptr<PictureRows> rows_of_tiff(TiffPicture picture, std::uint64_t most_held = kMostHeldOfTiff);

}  // namespace offramp
