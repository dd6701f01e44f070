#include "common/app/images/rows_of_jpeg.hpp"

#include <utility>

#include "common/app/images/image_decode.hpp"
#include "common/app/images/jpeg.hpp"
#include "common/app/images/tiling.hpp"

namespace offramp {
namespace {

class RowsOfJpeg final : public PictureRows {
  public:
    explicit RowsOfJpeg(std::unique_ptr<JpegPicture> picture)
        : PictureRows(picture->size()), picture_(std::move(picture)) {}

    void read(std::uint32_t rows, std::uint8_t* rgb) override { picture_->read(rows, rgb); }

  private:
    std::unique_ptr<JpegPicture> picture_;
};

}  // namespace

std::unique_ptr<PictureRows> rows_of_jpeg(FileWindow file) {
    auto picture = std::make_unique<JpegPicture>(std::move(file));
    check_pixels(picture->size(), kMostTiledPixels);
    if (picture->has_many_scans()) check_held_whole(picture->size(), "a progressive JPEG");
    return std::make_unique<RowsOfJpeg>(std::move(picture));
}

}  // namespace offramp
