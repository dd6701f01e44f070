#include "producer/runner/sources/picture_source.hpp"

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include "common/app/images/image_decode.hpp"
#include "common/app/images/open_pictures.hpp"
#include "common/app/images/tiling.hpp"
#include "common/base/error.hpp"
#include "producer/runner/sources/tiles/tiled_pictures.hpp"

namespace offramp {
namespace {

// Lends each loading thread a decoder with its scratch memory; there are as many as ever loaded concurrently.
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

class PictureSource final : public BatchSource {
  public:
    PictureSource(std::string_view name, std::shared_ptr<PictureList> pictures, const PictureFrame& frame,
                  bool columns_are_read)
        : name_(name), pictures_(std::move(pictures)), frame_(frame), columns_are_read_(columns_are_read) {
        for (std::uint64_t item = 0; item < items(); ++item)
            max_key_bytes_ = std::max(max_key_bytes_, key(item).size());
    }

    std::string description() const override { return name_ + ": " + pictures_->description(); }
    std::vector<LeftOut> left_out() const override { return pictures_->left_out(); }
    std::uint64_t items() const override { return pictures_->size(); }
    RowKind row_kind() const override { return RowKind::Pixels; }
    std::string_view key(std::uint64_t item) const override { return pictures_->key(item); }
    std::size_t max_key_bytes() const override { return max_key_bytes_; }
    std::string origin(std::uint64_t item) const override { return pictures_->origin(item); }
    std::string file(std::uint64_t item) const override {
        try {
            PicturePlace place = pictures_->place(item);
            return place.bytes ? std::string() : std::move(place.path);
        } catch (const UnreadableItem&) {
            return {};  // it is skipped with this reason in its turn
        }
    }
    std::uint64_t note_hash(std::uint64_t item) const override { return pictures_->columns_hash(item); }
    void load(std::uint64_t item, std::span<std::byte> row) override {
        if (columns_are_read_) (void)pictures_->columns(item);
        decoders_.borrow()->decode_file(pictures_->place(item), frame_, row);
    }

  private:
    std::string name_;
    std::shared_ptr<PictureList> pictures_;
    std::size_t max_key_bytes_ = 0;
    PictureFrame frame_;
    bool columns_are_read_;
    Decoders decoders_;
};

// Consumers derive the frame from the settings alone, where both sides have one number.
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

}  // namespace

std::unique_ptr<BatchSource> make_picture_source(std::string_view name, const SourceOptions& options) {
    const TensorSpec& input = options.model_input;
    if (!options.model_takes_images || input.dims != 4)
        throw ConfigError(
            "source '" + std::string(name) + "' gives pictures, but the model '" + options.model->model + "' takes " +
                (input.dims == 0         ? "no input"
                 : options.parts.empty() ? input.describe()
                                         : describe_parts(options.parts)),
            input.dims == 0         ? "Choose a model that takes pictures"
            : options.parts.empty() ? "Give --input FILE.npy, an array whose rows are the samples, or a folder with "
                                      "a .npy file for each; or a model that takes pictures"
                                    : kGiveArrays);
    const ImageSize size{static_cast<std::uint32_t>(input.shape[3]), static_cast<std::uint32_t>(input.shape[2])};
    expect(size.pixels() > 0 && input.shape[1] == 3, "a model's picture is [rows, 3, height, width]");
    const TileSize tiles{options.input->tile, options.input->tile == 0 ? 0 : options.input->overlap_pixels()};
    if (tiles.tile > 0 && !(size == ImageSize{tiles.tile, tiles.tile}))
        throw ConfigError("--tile " + std::to_string(tiles.tile) + ": the model '" + options.model->model +
                              "' takes pictures of " + std::to_string(size.height) + " x " +
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
                                    .stamps = options.stamps});
    return std::make_unique<PictureSource>(name, std::move(pictures), frame_of(*options.input, size),
                                           options.columns_are_read);
}

}  // namespace offramp
