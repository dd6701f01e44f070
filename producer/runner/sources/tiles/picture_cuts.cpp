#include "producer/runner/sources/tiles/picture_cuts.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include "common/app/images/picture_parts.hpp"
#include "common/app/images/unreadable_item.hpp"
#include "common/base/error.hpp"

namespace offramp {
namespace {

std::string too_wide(ImageSize size, std::uint32_t tile, std::uint64_t bytes) {
    return "an image of " + std::to_string(size.width) + " x " + std::to_string(size.height) + " pixels, of which " +
           std::to_string(tile) + " rows are " + std::to_string(bytes >> 20U) + " MiB; at most " +
           std::to_string(kMostBandBytes >> 20U) + " MiB are held in memory. A smaller --tile needs less";
}

// `seen`: the part of the tile that is in the picture. Rows have `row_pixels` pixels.
void put_tile(const std::uint8_t* rgb, std::size_t row_pixels, ImageSize seen, std::uint32_t tile,
              std::span<std::byte> to) {
    expect(to.size() == std::size_t{tile} * tile * 3, "a row of staging holds one tile");
    for (std::uint32_t y = 0; y < tile; ++y) {
        const std::uint8_t* const from = rgb + std::min(y, seen.height - 1) * row_pixels * 3;
        std::byte* const line = to.data() + std::size_t{y} * tile * 3;
        std::memcpy(line, from, std::size_t{seen.width} * 3);
        for (std::uint32_t x = seen.width; x < tile; ++x)
            std::memcpy(line + std::size_t{x} * 3, from + (seen.width - 1) * std::size_t{3}, 3);
    }
}

// Puts pixels with their channels together into a frame of separate channels, each of `channel` pixels, from pixel `at`
// of each on. `seen`, `row_pixels`: as for put_tile().
void put_numbers(const std::uint8_t* pixels, std::size_t row_pixels, ImageSize seen, PixelForm form, ImageSize frame,
                 std::size_t channel, std::size_t at, std::span<std::byte> to) {
    expect(to.size() == channel * form.pixel_bytes(), "a row of staging holds all channels");
    constexpr std::size_t kBytes = sizeof(float);
    for (std::uint32_t y = 0; y < frame.height; ++y) {
        const std::uint8_t* const from = pixels + std::min(y, seen.height - 1) * row_pixels * form.pixel_bytes();
        for (std::size_t c = 0; c < form.channels; ++c) {
            std::byte* const line = to.data() + (c * channel + at + std::size_t{y} * frame.width) * kBytes;
            for (std::uint32_t x = 0; x < frame.width; ++x)
                std::memcpy(line + x * kBytes, from + std::min(x, seen.width - 1) * form.pixel_bytes() + c * kBytes,
                            kBytes);
        }
    }
}

void put(const std::uint8_t* pixels, std::size_t row_pixels, ImageSize seen, PixelForm form, std::uint32_t tile,
         std::span<std::byte> to) {
    if (form.channels == 0)
        put_tile(pixels, row_pixels, seen, tile, to);
    else
        put_numbers(pixels, row_pixels, seen, form, {tile, tile}, std::size_t{tile} * tile, 0, to);
}

class CutsOfBands final : public PictureCuts {
  public:
    CutsOfBands(PicturePlace place, const CutPlan& plan, TileSize tiles, std::uint32_t workers)
        : tiling_(plan.size, tiles),
          tile_(tiles.tile),
          form_(plan.form),
          // Keeps the bands in use by threads, and the one being made.
          bands_(std::move(place), plan.size, tiles, 2 + workers / tiling_.across().tiles(), form_) {}

    void cut(std::uint32_t row, std::uint32_t column, std::span<std::byte> to) override {
        const auto band = bands_.of_row(row);
        const std::uint32_t width = tiling_.across().length();
        const std::uint32_t left = tiling_.across().first_shown(column);
        put(band->pixels.data() + left * form_.pixel_bytes(), width, {std::min(tile_, width - left), band->rows}, form_,
            tile_, to);
    }

  private:
    const Tiling tiling_;
    const std::uint32_t tile_;
    const PixelForm form_;
    PictureBands bands_;
};

// Each cutting thread has its own decoder, which the next one takes over.
class CutsOfRegions final : public PictureCuts {
  public:
    CutsOfRegions(PicturePlace place, const CutPlan& plan, TileSize tiles)
        : place_(std::move(place)), size_(plan.size), tiling_(plan.size, tiles), tile_(tiles.tile), form_(plan.form) {}

    void cut(std::uint32_t row, std::uint32_t column, std::span<std::byte> to) override {
        Decoder decoder = take();
        const PictureRect part{.left = tiling_.across().first_shown(column),
                               .top = tiling_.down().first_shown(row),
                               .size = {std::min(tile_, size_.width), std::min(tile_, size_.height)}};
        decoder.pixels.resize(part.size.pixels() * form_.pixel_bytes());
        decoder.regions->read(part, decoder.pixels.data());  // a decoder that failed is not used again
        put(decoder.pixels.data(), part.size.width, part.size, form_, tile_, to);
        const std::lock_guard lock(mutex_);
        idle_.push_back(std::move(decoder));
    }

  private:
    struct Decoder {
        std::unique_ptr<PictureRegions> regions;
        std::vector<std::uint8_t> pixels;
    };

    Decoder take() {
        {
            const std::lock_guard lock(mutex_);
            if (!idle_.empty()) {
                Decoder decoder = std::move(idle_.back());
                idle_.pop_back();
                return decoder;
            }
        }
        Decoder decoder{.regions = open_picture_regions(place_, form_), .pixels = {}};
        if (decoder.regions == nullptr || !(decoder.regions->size() == size_))
            throw UnreadableItem("the picture changed after the run began");
        return decoder;
    }

    const PicturePlace place_;
    const ImageSize size_;
    const Tiling tiling_;
    const std::uint32_t tile_;
    const PixelForm form_;
    std::mutex mutex_;
    std::vector<Decoder> idle_;
};

}  // namespace

CutPlan plan_of_cuts(const PicturePlace& place, TileSize tiles, PixelForm form) {
    if (const auto regions = open_picture_regions(place, form))
        return {.size = regions->size(), .by_regions = true, .form = form};
    const ImageSize size = open_picture_rows(place, form)->size();
    const std::uint64_t rows = std::min(tiles.tile, size.height);
    if (const std::uint64_t bytes = rows * size.width * form.pixel_bytes(); bytes > kMostBandBytes)
        throw UnreadableItem(too_wide(size, tiles.tile, bytes));
    return {.size = size, .by_regions = false, .form = form};
}

void read_numbers(const PicturePlace& place, PixelForm form, ImageSize size, std::span<std::byte> to) {
    constexpr std::size_t kAtOnce = std::size_t{64} << 20U;
    const auto rows = open_picture_rows(place, form);
    if (!(rows->size() == size))
        throw UnreadableItem("TIFF of " + std::to_string(rows->size().height) + " x " +
                             std::to_string(rows->size().width) + " pixels, and the model takes " +
                             std::to_string(size.height) + " x " + std::to_string(size.width) +
                             ". Cut larger ones with --tile");
    const std::size_t row_bytes = size.width * form.pixel_bytes();
    const auto most = static_cast<std::uint32_t>(std::clamp<std::size_t>(kAtOnce / row_bytes, 1, size.height));
    std::vector<std::uint8_t> pixels(most * row_bytes);
    for (std::uint32_t y = 0; y < size.height; y += most) {
        const ImageSize part{size.width, std::min(most, size.height - y)};
        rows->read(part.height, pixels.data());
        put_numbers(pixels.data(), size.width, part, form, part, size.pixels(), std::size_t{y} * size.width, to);
    }
}

std::shared_ptr<PictureCuts> make_picture_cuts(PicturePlace place, const CutPlan& plan, TileSize tiles,
                                               std::uint32_t workers) {
    if (plan.by_regions) return std::make_shared<CutsOfRegions>(std::move(place), plan, tiles);
    return std::make_shared<CutsOfBands>(std::move(place), plan, tiles, workers);
}

PictureBands::PictureBands(PicturePlace place, ImageSize size, TileSize tiles, std::uint32_t kept, PixelForm form)
    : place_(std::move(place)), size_(size), form_(form), down_(size.height, tiles), tile_(tiles.tile), kept_(kept) {}

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
        // Makes the bands in between, too: other threads need them, because tiles are requested in order.
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
    rows_ = open_picture_rows(place_, form_);
    if (!(rows_->size() == size_)) throw UnreadableItem("the picture changed after the run began");
    read_ = 0;
    bands_.clear();
}

std::shared_ptr<const PictureBand> PictureBands::next_band() {
    const std::uint32_t first = down_.first_shown(next_);
    const std::uint32_t rows = std::min(tile_, size_.height - first);
    const std::size_t row_bytes = size_.width * form_.pixel_bytes();
    auto band = std::make_shared<PictureBand>(PictureBand{.first = first, .rows = rows, .pixels = {}});
    band->pixels.resize(rows * row_bytes);
    std::uint32_t there = 0;  // rows that the previous band already has
    if (!bands_.empty()) {
        const PictureBand& before = *bands_.back();
        there = before.first + before.rows - std::min(first, before.first + before.rows);
        std::memcpy(band->pixels.data(), before.pixels.data() + (before.rows - there) * row_bytes, there * row_bytes);
    }
    if (read_ < first) {
        rows_->pass_over(first - read_);
        read_ = first;
    }
    expect(read_ == first + there, "a band continues after the existing rows");
    rows_->read(rows - there, band->pixels.data() + there * row_bytes);
    read_ = first + rows;
    ++next_;
    bands_.push_back(band);
    if (bands_.size() > kept_) bands_.pop_front();
    return band;
}

}  // namespace offramp
