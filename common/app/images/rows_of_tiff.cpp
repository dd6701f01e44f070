#include "common/app/images/rows_of_tiff.hpp"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "common/base/error.hpp"

namespace offramp {
namespace {

class RowsOfTiff final : public PictureRows {
  public:
    RowsOfTiff(TiffPicture picture, std::uint64_t most_held)
        : PictureRows(picture.size()), picture_(std::move(picture)), most_held_(most_held) {}

    void read(std::uint32_t rows, std::uint8_t* rgb) override {
        expect(rows <= size().height - next_, "no more rows are read than there are");
        if (!picture_.in_tiles()) {
            picture_.read({.left = 0, .top = next_, .size = {size().width, rows}}, rgb);
            next_ += rows;
            return;
        }
        const std::size_t row_bytes = std::size_t{size().width} * 3;
        for (; rows > 0; --rows, ++next_, rgb += row_bytes) {
            if (next_ < held_from_ || next_ - held_from_ >= held_rows_) hold();
            std::memcpy(rgb, held_.data() + (next_ - held_from_) * row_bytes, row_bytes);
        }
    }

    void pass_over(std::uint32_t rows) override {
        expect(rows <= size().height - next_, "no more rows are passed over than there are");
        next_ += rows;
    }

  private:
    // From the next row on, as many as there are of its row of tiles, and may be held.
    void hold() {
        const std::uint32_t height = picture_.tile().height;
        const std::uint64_t may = std::max<std::uint64_t>(most_held_ / (std::uint64_t{size().width} * 3), 1);
        const std::uint32_t are = std::min(height - next_ % height, size().height - next_);
        const ImageSize part{size().width, static_cast<std::uint32_t>(std::min<std::uint64_t>(may, are))};
        held_rows_ = 0;
        held_.resize(part.rgb_bytes());
        picture_.read({.left = 0, .top = next_, .size = part}, held_.data());
        held_from_ = next_;
        held_rows_ = part.height;
    }

    TiffPicture picture_;
    std::uint64_t most_held_;
    std::uint32_t next_ = 0;
    std::uint32_t held_from_ = 0, held_rows_ = 0;
    std::vector<std::uint8_t> held_;  // those rows
};

}  // namespace

std::unique_ptr<PictureRows> rows_of_tiff(TiffPicture picture, std::uint64_t most_held) {
    return std::make_unique<RowsOfTiff>(std::move(picture), most_held);
}

}  // namespace offramp
