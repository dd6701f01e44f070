#include "producer/runner/sources/picture_source.hpp"

#include <algorithm>
#include <cstring>
#include <list>
#include <mutex>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "common/app/images/geometry.hpp"
#include "common/app/images/image_decode.hpp"
#include "common/app/images/picture_list.hpp"
#include "common/base/error.hpp"
#include "common/base/log.hpp"
#include "common/wire/shape_text.hpp"
#include "common/wire/slab_header.hpp"
#include "producer/runner/sources/source_items.hpp"
#include "producer/runner/sources/tiles/picture_cuts.hpp"

namespace offramp {
namespace {

// Lends each loading thread a decoder with its scratch memory. It has as many as threads ever loaded concurrently.
class Decoders {
  public:
    class Loan {
      public:
        Loan(Decoders& owner, std::unique_ptr<ImageDecoder> decoder) : owner_(owner), decoder_(std::move(decoder)) {}
        ~Loan() {
            const std::lock_guard lock(owner_.mutex_);
            owner_.idle_.push_back(std::move(decoder_));
        }
        Loan(const Loan&) = delete;
        Loan& operator=(const Loan&) = delete;
        ImageDecoder* operator->() const { return decoder_.get(); }
        ImageDecoder& operator*() const { return *decoder_; }

      private:
        Decoders& owner_;
        std::unique_ptr<ImageDecoder> decoder_;
    };

    Loan borrow() {
        std::unique_ptr<ImageDecoder> decoder;
        {
            const std::lock_guard lock(mutex_);
            if (!idle_.empty()) {
                decoder = std::move(idle_.back());
                idle_.pop_back();
            }
        }
        return {*this, decoder ? std::move(decoder) : std::make_unique<ImageDecoder>()};
    }

  private:
    std::mutex mutex_;
    std::vector<std::unique_ptr<ImageDecoder>> idle_;
};

// The shape of a picture that the model takes in its own size.
ItemShapes::Shape shape_of(ImageDecoder& decoder, const PicturePlace& place, PixelForm form) {
    const ImageSize size = form.channels == 0 ? decoder.size_of_file(place) : open_picture_rows(place, form)->size();
    check_pixels(size);
    ItemShapes::Shape shape{form.channels == 0 ? 3 : form.channels, size.height, size.width};
    ItemShapes::require_size(shape);
    return shape;
}

class PictureSource final : public BatchSource {
  public:
    PictureSource(std::string_view name, std::shared_ptr<PictureList> pictures, const PictureFrame& frame,
                  bool columns_are_read, std::shared_ptr<const ItemShapes> shapes, PixelForm form)
        : name_(name),
          pictures_(std::move(pictures)),
          frame_(frame),
          columns_are_read_(columns_are_read),
          shapes_(std::move(shapes)),
          form_(form) {
        max_key_bytes_ = index() != nullptr ? index()->max_key_bytes : bytes_of_longest_key(*this);
    }

    std::string description() const override { return name_ + ": " + pictures_->description(); }
    std::vector<LeftOut> left_out() const override { return pictures_->left_out(); }
    std::uint64_t items() const override { return pictures_->size(); }
    const ListIndex* index() const override { return pictures_->index(); }
    ItemRange at_hand() const override { return pictures_->at_hand(); }
    RowKind row_kind() const override { return form_.channels == 0 ? RowKind::Pixels : RowKind::Float32; }
    std::span<const std::int64_t> shape(std::uint64_t item) const override {
        return shapes_ ? std::span<const std::int64_t>(shapes_->of(item)) : std::span<const std::int64_t>();
    }
    std::string_view key(std::uint64_t item) const override { return pictures_->key(item); }
    std::size_t max_key_bytes() const override { return max_key_bytes_; }
    std::string origin(std::uint64_t item) const override { return pictures_->origin(item); }
    std::string file(std::uint64_t item) const override {
        try {
            PicturePlace place = pictures_->place(item);
            return place.bytes ? std::string() : std::move(place.path);
        } catch (const UnreadableItem&) {
            return {};  // the picture is skipped with this reason in its turn
        }
    }
    std::string_view end_of_file(std::uint64_t item) const override { return pictures_->file_name(item); }
    std::uint64_t note_hash(std::uint64_t item) const override { return pictures_->columns_hash(item); }
    void load(std::uint64_t item, std::span<std::byte> row) override {
        const auto decoder = decoders_.borrow();
        const PictureFrame frame = frame_of_item(item, *decoder);
        if (form_.channels != 0) return read_numbers(pictures_->place(item), form_, frame.size, row);
        decoder->decode_file(pictures_->place(item), frame, row);
    }
    void load_for_gpu(std::uint64_t item, std::span<std::byte> row, EncodedPicture& encoded) override {
        const auto decoder = decoders_.borrow();
        const PictureFrame frame = frame_of_item(item, *decoder);
        decoder->read_for_gpu(pictures_->place(item), frame, row, encoded);
    }

  private:
    PictureFrame frame_of_item(std::uint64_t item, ImageDecoder& decoder) const {
        if (columns_are_read_) (void)pictures_->columns(item);
        if (!shapes_) return frame_;
        const ItemShapes::Shape found = shape_of(decoder, pictures_->place(item), form_);
        if (found != shapes_->of(item)) throw UnreadableItem("the picture changed after the run began");
        return ImageSize{static_cast<std::uint32_t>(found[2]), static_cast<std::uint32_t>(found[1])};
    }

    std::string name_;
    std::shared_ptr<PictureList> pictures_;
    std::size_t max_key_bytes_ = 0;
    PictureFrame frame_;
    bool columns_are_read_;
    std::shared_ptr<const ItemShapes> shapes_;  // null: pictures have the frame's size
    PixelForm form_;
    Decoders decoders_;
};

// Consumers derive the frame from the settings alone, which have one number for both sides.
PictureFrame frame_of(const InputSettings& config, ImageSize size) {
    const std::uint32_t shorter = config.resize_size;
    const Interpolation way = config.interpolation == "bicubic" ? Interpolation::Bicubic : Interpolation::Bilinear;
    if (shorter == 0) return {size, 0, way};
    if (size.width != size.height || size.width != config.image_size || shorter < size.width)
        throw ConfigError("--resize-size " + std::to_string(shorter) + " does not go with a model that takes " +
                              std::to_string(size.height) + " x " + std::to_string(size.width) + " pixels",
                          "Accepted with it: a square --image-size of " + std::to_string(kSmallestImageSize) + " to " +
                              std::to_string(shorter) +
                              " (both may be in the metadata beside the model). Without it, all of a picture is "
                              "squeezed into any size");
    return {size, shorter, way};
}

bool fits_extent(std::int64_t extent, std::int64_t declared) { return declared == kVarying || declared == extent; }

// A picture of the list, and its facts before decoding.
struct TiledPicture {
    CutPlan plan{.size = {1, 1}, .by_regions = false};
    std::uint64_t first_item = 0;
    std::uint64_t stamp = 0;
    std::string problem;  // empty: readable, according to its header
};

// Lends each loading thread the cuts of its picture. Unused cuts are closed once others are opened: items are loaded in
// order, by several threads.
class OpenPictures {
  public:
    class Loan {
      public:
        Loan(OpenPictures& owner, std::shared_ptr<PictureCuts> cuts, std::uint64_t picture)
            : owner_(owner), cuts_(std::move(cuts)), picture_(picture) {}
        ~Loan() { owner_.give_back(picture_); }
        Loan(const Loan&) = delete;
        Loan& operator=(const Loan&) = delete;
        PictureCuts* operator->() const { return cuts_.get(); }

      private:
        OpenPictures& owner_;
        std::shared_ptr<PictureCuts> cuts_;
        std::uint64_t picture_;
    };

    template <class Make>
    Loan borrow(std::uint64_t picture, const Make& make) {
        const std::lock_guard lock(mutex_);
        auto found = std::ranges::find(open_, picture, &Open::picture);
        if (found == open_.end()) found = open_.insert(open_.end(), {.picture = picture, .loans = 0, .cuts = make()});
        ++found->loans;
        return {*this, found->cuts, picture};
    }

  private:
    struct Open {
        std::uint64_t picture;
        std::uint32_t loans;
        std::shared_ptr<PictureCuts> cuts;
    };

    void give_back(std::uint64_t picture) {
        const std::lock_guard lock(mutex_);
        --std::ranges::find(open_, picture, &Open::picture)->loans;
        // Closes all but the one that was opened last.
        for (auto open = open_.begin(); open != open_.end() && std::next(open) != open_.end();)
            open = open->loans == 0 ? open_.erase(open) : std::next(open);
    }

    std::mutex mutex_;
    std::list<Open> open_;  // in the order in which they were opened
};

class TiledPictures final : public BatchSource {
  public:
    explicit TiledPictures(TiledInput input) : input_(std::move(input)) {
        const std::uint64_t all = input_.pictures->size();
        const std::uint64_t wanted = input_.limit == 0 ? all : std::min(all, input_.limit);
        pictures_.reserve(wanted);
        while (pictures_.size() < wanted) {
            if (input_.still_wanted) input_.still_wanted();
            add(pictures_.size());
        }
        for (const std::string& key : keys_) max_key_bytes_ = std::max(max_key_bytes_, key.size());
        warn_of_empty_tiles();
    }

    std::string description() const override {
        const std::uint64_t pictures = pictures_.size();
        return input_.name + ": " + input_.pictures->description() +
               (pictures < input_.pictures->size() ? ", of which the first " + std::to_string(pictures) : "") +
               ", in " + std::to_string(items()) + " tiles of " + std::to_string(input_.size.tile) +
               " pixels that overlap by " + std::to_string(input_.size.overlap);
    }
    std::vector<LeftOut> left_out() const override { return input_.pictures->left_out(); }
    std::uint64_t items() const override { return keys_.size(); }
    RowKind row_kind() const override { return input_.form.channels == 0 ? RowKind::Pixels : RowKind::Float32; }
    std::string_view key(std::uint64_t item) const override { return keys_[item]; }
    std::string_view key_of_whole(std::uint64_t item) const override { return input_.pictures->key(picture_of(item)); }
    std::size_t max_key_bytes() const override { return max_key_bytes_; }
    std::string origin(std::uint64_t item) const override {
        const std::uint64_t picture = picture_of(item);
        const std::string of_picture = input_.pictures->origin(picture);
        if (!pictures_[picture].problem.empty()) return of_picture;
        const auto [row, column] = place_of(picture, item);
        return of_picture + ", tile " + std::to_string(row) + "," + std::to_string(column);
    }
    std::string file(std::uint64_t item) const override {
        try {
            PicturePlace place = input_.pictures->place(picture_of(item));
            return place.bytes ? std::string() : std::move(place.path);
        } catch (const UnreadableItem&) {
            return {};  // the tile is skipped with this reason in its turn
        }
    }
    std::uint64_t note_hash(std::uint64_t item) const override {
        return input_.pictures->columns_hash(picture_of(item));
    }

    std::uint64_t stamp(std::uint64_t item) const override { return pictures_[picture_of(item)].stamp; }

    void load(std::uint64_t item, std::span<std::byte> row) override {
        const std::uint64_t picture = picture_of(item);
        const TiledPicture& of = pictures_[picture];
        if (!of.problem.empty()) throw UnreadableItem(of.problem);
        const auto [tile_row, tile_column] = place_of(picture, item);
        const auto loan = open_.borrow(picture, [&] {
            return make_picture_cuts(input_.pictures->place(picture), of.plan, input_.size, input_.workers);
        });
        loan->cut(tile_row, tile_column, row);
        // Check after the cut: data read before a change is intact.
        if (stamp_of(input_.pictures->place(picture)) != of.stamp)
            throw UnreadableItem("the picture changed after the run began");
    }

  private:
    void add(std::uint64_t picture) {
        TiledPicture of{.first_item = keys_.size()};
        try {
            const PicturePlace place = input_.pictures->place(picture);
            of.stamp = input_.stamps.of(input_.pictures->key(picture));
            if (of.stamp == 0) of.stamp = stamp_of(place);
            of.plan = plan_of_cuts(place, input_.size, input_.form);
        } catch (const UnreadableItem& unreadable) {
            of.problem = unreadable.what();
        }
        const Tiling tiling(of.plan.size, input_.size);
        if (of.problem.empty() && is_mostly_beyond(of.plan.size)) {
            if (empty_tiles_ == 0) first_empty_ = picture;
            empty_tiles_ += tiling.tiles();
        }
        const std::string_view key = input_.pictures->key(picture);
        for (std::uint32_t row = 0; row < tiling.down().tiles(); ++row)
            for (std::uint32_t column = 0; column < tiling.across().tiles(); ++column)
                keys_.push_back(tile_key({.picture = key, .size = of.plan.size, .row = row, .column = column}));
        if (keys_.back().size() > kMaxKeyBytes)
            throw ConfigError("the name of " + input_.pictures->origin(picture) + " has " + std::to_string(key.size()) +
                                  " bytes, too many for those of its tiles",
                              "Shorten it to " + std::to_string(kMaxKeyBytes - 64) + " bytes");
        pictures_.push_back(std::move(of));
    }

    // True if each of the picture's tiles shows it on less than half its area; a larger picture has its last tiles
    // shifted back.
    bool is_mostly_beyond(ImageSize picture) const {
        const std::uint64_t tile = input_.size.tile;
        return 2 * std::min<std::uint64_t>(picture.width, tile) * std::min<std::uint64_t>(picture.height, tile) <
               tile * tile;
    }

    void warn_of_empty_tiles() const {
        if (2 * empty_tiles_ <= items()) return;
        const auto [width, height] = pictures_[first_empty_].plan.size;
        spdlog::warn(
            "--tile {} is large for these pictures: in {} of {} tiles, more than half is outside the picture (as in "
            "{}, {} x {} pixels), at the cost of a full tile. Export the model with a smaller --image-size, and use "
            "that --tile",
            input_.size.tile, empty_tiles_, items(), input_.pictures->origin(first_empty_), width, height);
    }

    std::uint64_t picture_of(std::uint64_t item) const {
        const auto behind = std::ranges::upper_bound(pictures_, item, {}, &TiledPicture::first_item);
        return static_cast<std::uint64_t>(behind - pictures_.begin()) - 1;
    }

    std::pair<std::uint32_t, std::uint32_t> place_of(std::uint64_t picture, std::uint64_t item) const {
        const std::uint32_t columns = TileAxis(pictures_[picture].plan.size.width, input_.size).tiles();
        const std::uint64_t tile = item - pictures_[picture].first_item;
        return {static_cast<std::uint32_t>(tile / columns), static_cast<std::uint32_t>(tile % columns)};
    }

    TiledInput input_;
    std::vector<TiledPicture> pictures_;
    std::vector<std::string> keys_;  // keys of the tiles
    std::size_t max_key_bytes_ = 0;
    std::uint64_t empty_tiles_ = 0;  // tiles with is_mostly_beyond()
    std::uint64_t first_empty_ = 0;  // the first picture with such tiles
    OpenPictures open_;
};

}  // namespace

std::unique_ptr<BatchSource> make_picture_source(std::string_view name, const SourceOptions& options) {
    const TensorSpec& input = options.model_input;
    const bool takes_bands = !options.model_takes_images && options.parts.empty() && input.dims == 4 &&
                             (input.dtype == kFloat32 || input.dtype == kBFloat16);
    if (!takes_bands && (!options.model_takes_images || input.dims != 4))
        throw ConfigError(
            "source '" + std::string(name) + "' gives pictures, but the model '" + options.model->model + "' takes " +
                (input.dims == 0         ? "no input"
                 : options.parts.empty() ? input.describe()
                                         : describe_parts(options.parts)),
            input.dims == 0         ? "Choose a model that takes pictures"
            : options.parts.empty() ? "Give --input FILE.npy, an array whose rows are the samples, or a folder with "
                                      "a .npy file for each; or a model that takes pictures"
                                    : kGiveArrays);
    const PixelForm form{.channels = takes_bands ? static_cast<std::uint32_t>(input.shape[1]) : 0};
    if (options.shapes)
        return std::make_unique<PictureSource>(name, options.pictures, ImageSize{1, 1}, options.columns_are_read,
                                               options.shapes, form);
    const ImageSize size{static_cast<std::uint32_t>(input.shape[3]), static_cast<std::uint32_t>(input.shape[2])};
    expect(size.pixels() > 0 && (takes_bands || input.shape[1] == 3), "a model's picture is [rows, 3, height, width]");
    const TileSize tiles{options.input->tile, options.input->tile == 0 ? 0 : options.input->overlap_pixels()};
    if (tiles.tile > 0 && !(size == ImageSize{tiles.tile, tiles.tile}))
        throw ConfigError("--tile " + std::to_string(tiles.tile) + ": the model '" + options.model->model + "' takes " +
                              (takes_bands ? "bands" : "pictures") + " of " + std::to_string(size.height) + " x " +
                              std::to_string(size.width) + " pixels",
                          "Give --tile the model's own size, if it is square, or leave --tile out");
    std::shared_ptr<PictureList> pictures =
        options.pictures ? options.pictures
                         : open_pictures(name, options.input->input, options.still_wanted, options.input->input_list);
    if (tiles.tile > 0)
        return make_tiled_pictures({.name = std::string(name),
                                    .pictures = std::move(pictures),
                                    .size = tiles,
                                    .limit = options.input->limit,
                                    .workers = std::max(1U, options.input->decode_workers),
                                    .still_wanted = options.still_wanted,
                                    .stamps = options.stamps,
                                    .form = form});
    return std::make_unique<PictureSource>(name, std::move(pictures),
                                           takes_bands ? PictureFrame(size) : frame_of(*options.input, size),
                                           options.columns_are_read, nullptr, form);
}

bool is_shape_of_bands(std::span<const std::int64_t> sample) { return sample.size() == 3 && sample[0] != kVarying; }

void add_shapes(const PictureList& list, std::uint64_t pictures, std::span<const std::int64_t> declared,
                const StillWanted& still_wanted, ItemShapes& shapes) {
    const PixelForm form{.channels = declared.empty() ? 0 : static_cast<std::uint32_t>(declared[0])};
    ImageDecoder decoder;
    for (std::uint64_t picture = 0; picture < pictures; ++picture) {
        if (still_wanted) still_wanted();
        try {
            const ItemShapes::Shape shape = shape_of(decoder, list.place(picture), form);
            if (!declared.empty() && !std::ranges::equal(shape, declared, fits_extent))
                throw UnreadableItem("TIFF of " + shape_text(shape) + ", and the model takes " + shape_text(declared) +
                                     ". Leave it out, or cut it to that shape");
            shapes.add(shape);
        } catch (const UnreadableItem& unreadable) {
            shapes.add_unreadable(list.origin(picture) + ": " + unreadable.what());
        }
    }
}

std::unique_ptr<BatchSource> make_tiled_pictures(TiledInput input) {
    return std::make_unique<TiledPictures>(std::move(input));
}

}  // namespace offramp
