#include "common/app/images/picture_regions.hpp"

#include <utility>
#include <vector>

#include "common/app/images/image_format.hpp"
#include "common/app/images/orientation.hpp"
#include "common/app/images/tiff.hpp"
#include "common/app/images/tiling.hpp"
#include "common/app/images/unreadable_item.hpp"

namespace offramp {
namespace {

class RegionsOfTiff final : public PictureRegions {
  public:
    explicit RegionsOfTiff(TiffPicture picture)
        : PictureRegions(upright_size(picture.size(), picture.orientation())), picture_(std::move(picture)) {}

    void read(const PictureRect& part, std::uint8_t* rgb) override {
        const Orientation orientation = picture_.orientation();
        if (orientation == Orientation::Upright) {
            picture_.read(part, rgb);
            return;
        }
        const PictureRect stored = stored_part(part, picture_.size(), orientation);
        pixels_.resize(stored.size.rgb_bytes());
        picture_.read(stored, pixels_.data());
        bring_upright(pixels_.data(), stored.size, orientation, rgb);
    }

  private:
    TiffPicture picture_;
    std::vector<std::uint8_t> pixels_;
};

}  // namespace

std::unique_ptr<PictureRegions> open_picture_regions(const PicturePlace& place) {
    PictureBytes bytes = picture_bytes(place);
    std::vector<std::byte> front(kMagicBytes);
    front.resize(or_unreadable([&] { return bytes.read_at(0, front); }));
    if (image_format(front) != ImageFormat::Tiff) return nullptr;
    TiffPicture picture(std::move(bytes), kMostTiledPixels);
    if (!picture.in_tiles()) return nullptr;
    return std::make_unique<RegionsOfTiff>(std::move(picture));
}

}  // namespace offramp
