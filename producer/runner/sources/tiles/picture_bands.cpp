#include "producer/runner/sources/tiles/picture_bands.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/app/images/unreadable_item.hpp"
#include "common/base/error.hpp"

namespace offramp {

PictureBands::PictureBands(PicturePlace place, ImageSize size, TileSize tiles, std::uint32_t kept)
    : place_(std::move(place)), size_(size), down_(size.height, tiles), tile_(tiles.tile), kept_(kept) {}

std::shared_ptr<const PictureBand> PictureBands::of_row(std::uint32_t tile_row) {
    const std::lock_guard lock(mutex_);
    if (damage_ && tile_row >= damage_->first) throw UnreadableItem(damage_->second);
    if (rows_ && tile_row < next_ && next_ - tile_row <= bands_.size())
        return bands_[bands_.size() - (next_ - tile_row)];
    try {
        if (!rows_ || tile_row < next_) {
            restart();
            next_ = tile_row;  // earlier bands are not needed
        }
        // Other threads need those in between: tiles are requested in order.
        while (next_ < tile_row) next_band();
        return next_band();
    } catch (const UnreadableItem& unreadable) {
        damage_ = {next_, unreadable.what()};
        rows_.reset();
        bands_.clear();
        throw;
    }
}

void PictureBands::restart() {
    rows_ = open_picture_rows(place_);
    if (!(rows_->size() == size_)) throw UnreadableItem("the picture changed after the run began");
    read_ = 0;
    bands_.clear();
}

std::shared_ptr<const PictureBand> PictureBands::next_band() {
    const std::uint32_t first = down_.first_shown(next_);
    const std::uint32_t rows = std::min(tile_, size_.height - first);
    const std::size_t row_bytes = std::size_t{size_.width} * 3;
    auto band = std::make_shared<PictureBand>(PictureBand{.first = first, .rows = rows, .rgb = {}});
    band->rgb.resize(rows * row_bytes);
    std::uint32_t there = 0;  // rows that the previous band also has
    if (!bands_.empty()) {
        const PictureBand& before = *bands_.back();
        there = before.first + before.rows - std::min(first, before.first + before.rows);
        std::memcpy(band->rgb.data(), before.rgb.data() + (before.rows - there) * row_bytes, there * row_bytes);
    }
    if (read_ < first) {
        rows_->pass_over(first - read_);
        read_ = first;
    }
    expect(read_ == first + there, "a band continues after the existing rows");
    rows_->read(rows - there, band->rgb.data() + there * row_bytes);
    read_ = first + rows;
    ++next_;
    bands_.push_back(band);
    if (bands_.size() > kept_) bands_.pop_front();
    return band;
}

}  // namespace offramp
