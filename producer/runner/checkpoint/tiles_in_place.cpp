#include "producer/runner/checkpoint/tiles_in_place.hpp"

#include <unistd.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "common/app/images/canvas_file.hpp"
#include "common/app/images/geometry.hpp"
#include "common/app/settings/processor_results.hpp"
#include "common/base/error.hpp"
#include "common/base/log.hpp"
#include "common/base/utf8.hpp"
#include "common/wire/output_forms.hpp"
#include "producer/runner/sources/source_items.hpp"

namespace offramp {
namespace {

constexpr std::size_t kPicturesNamed = 3;

// Consumers choose and name them the same way (consumer/processors/segmentation/segmentation_output.cpp).
std::vector<std::string> mask_endings(std::span<const TensorSpec> outputs, std::uint32_t upsample_factor,
                                      bool are_class_maps) {
    std::vector<std::string> names;
    for (const TensorSpec& output : outputs) {
        const bool is_confidence =
            are_class_maps && (output.name == "confidence" || output.name.ends_with(".confidence"));
        if (!is_confidence && obstacle_to_masks(output, upsample_factor).empty()) names.push_back("." + output.name);
    }
    if (names.size() == 1) names.front().clear();
    return names;
}

bool is_there(const std::string& file) { return ::access(file.c_str(), F_OK) == 0; }

// Formats pictures for a message.
class Named {
  public:
    void add(std::string_view picture, std::uint64_t tiles) {
        if (pictures_++ < kPicturesNamed) names_ += (names_.empty() ? "" : ", ") + printable(picture);
        tiles_ += tiles;
    }
    bool empty() const { return pictures_ == 0; }
    // "12 tiles of 4 pictures (a, b, c, and 1 more)"
    std::string text() const {
        return fmt::format("{} {} of {} {} ({}{})", tiles_, tiles_ == 1 ? "tile" : "tiles", pictures_,
                           pictures_ == 1 ? "picture" : "pictures", names_,
                           pictures_ > kPicturesNamed ? fmt::format(", and {} more", pictures_ - kPicturesNamed) : "");
    }

  private:
    std::string names_;
    std::uint64_t pictures_ = 0, tiles_ = 0;
};

}  // namespace

std::vector<StitchedOutput> stitched_outputs(const RunConfig& config, std::span<const TensorSpec> outputs,
                                             std::uint32_t upsample_factor) {
    std::vector<StitchedOutput> stitched;
    if (config.tile == 0 || config.output.empty()) return stitched;
    const std::vector<GroupSettings> groups = config.groups();
    for (const std::string& processor : config.processors()) {
        const auto misses_tiles = [&](const GroupSettings& group) {
            return group.policy.optional && group.processor == processor;
        };
        if (std::ranges::any_of(groups, misses_tiles)) continue;
        const ProcessorResults* const results = ProcessorResults::of(processor);
        if (results == nullptr || !results->puts_tiles_together) continue;
        const std::string masks = config.results_folder(config.folder_of_samples(), processor);
        const std::string canvases = canvas_folder(masks);
        for (std::string& name : mask_endings(outputs, upsample_factor, config.transform == "class-map"))
            stitched.push_back({.masks = masks, .canvases = canvases, .ending = std::move(name)});
    }
    return stitched;
}

// A picture's tiles within the run's share.
struct TilesInPlace::Picture {
    struct Tile {
        std::uint64_t item;
        std::uint32_t row, column;
    };
    std::string_view key;
    CanvasForm form;
    std::uint64_t tiles = 0;   // across all shards
    std::vector<Tile> done{};  // according to the checkpoint
};

TilesInPlace::TilesInPlace(const RunConfig& config, const BatchSource& source, std::vector<StitchedOutput> outputs)
    : source_(source), outputs_(std::move(outputs)) {
    if (outputs_.empty()) return;
    size_ = {.tile = config.tile, .overlap = config.overlap_pixels()};
    share_ = share_of(source, config);
    has_shard_ = !config.shard.empty();
}

// Tiles of a picture are consecutive. A picture of a single tile has no working file.
template <class Work>
void TilesInPlace::for_each_picture(const ItemRanges& done, const Work& work) const {
    if (outputs_.empty()) return;
    std::optional<Picture> picture;
    for (std::uint64_t item = share_.begin; item < share_.end; ++item) {
        const auto tile = tile_of_key(source_.key(item), size_);
        if (picture && (!tile || picture->key != tile->picture)) {
            work(*picture);
            picture.reset();
        }
        const std::uint64_t tiles = tile ? Tiling(tile->size, size_).tiles() : 0;
        if (tiles < 2) continue;
        if (!picture)
            picture = Picture{.key = tile->picture,
                              .form = {.picture = tile->size, .tiles = size_, .stamp = source_.stamp(item)},
                              .tiles = tiles};
        if (done.contains(item)) picture->done.push_back({item, tile->row, tile->column});
    }
    if (picture) work(*picture);
}

std::vector<std::uint64_t> TilesInPlace::lost_of(const Picture& picture, Look look) const {
    std::vector<bool> lost(picture.done.size());
    const auto lose_all = [&] { lost.assign(lost.size(), true); };
    for (const StitchedOutput& output : outputs_) {
        const std::string mask = std::string(picture.key) + output.ending;
        FoundCanvas canvas(output.canvases + "/" + canvas_name(mask), picture.form);
        const bool has_mask = is_there(output.masks + "/" + mask + ".png");
        // At the end, a committed mask counts as made even if it was removed during the run.
        if (canvas.is_committed() && (has_mask || look == Look::AtTheEnd)) continue;
        if (!canvas.is_there()) {
            const bool is_all_done = has_shard_ || picture.done.size() == picture.tiles;
            if (!has_mask || !is_all_done) lose_all();
        } else if (canvas.is_committed() || !canvas.matches_form()) {
            lose_all();
            if (look == Look::AtTheBeginning) canvas.remove();
        } else if (canvas.is_full()) {  // a returning consumer puts the mask in its place
            if (!lost.empty()) lost.front() = true;
        } else {
            for (std::size_t tile = 0; tile < lost.size(); ++tile)
                if (!canvas.has(picture.done[tile].row, picture.done[tile].column)) lost[tile] = true;
        }
    }
    std::vector<std::uint64_t> items;
    for (std::size_t tile = 0; tile < lost.size(); ++tile)
        if (lost[tile]) items.push_back(picture.done[tile].item);
    return items;
}

ItemRanges TilesInPlace::of(const ItemRanges& done) const {
    std::vector<std::uint64_t> lost;
    Named named;
    for_each_picture(done, [&](const Picture& picture) {
        const std::vector<std::uint64_t> items = lost_of(picture, Look::AtTheBeginning);
        if (!items.empty()) named.add(picture.key, items.size());
        lost.insert(lost.end(), items.begin(), items.end());
    });
    if (lost.empty()) return done;
    spdlog::warn("processed again: {}; the results of an earlier run are gone from {}, or the picture has changed",
                 named.text(), outputs_.front().canvases);
    ItemRanges left;
    for (const ItemRange& range : done.list()) {
        std::uint64_t from = range.begin;
        for (auto item = std::ranges::lower_bound(lost, from); item != lost.end() && *item < range.end; ++item) {
            left.add({from, *item});
            from = *item + 1;
        }
        left.add({from, range.end});
    }
    return left;
}

void TilesInPlace::require(const ItemRanges& done) const {
    Named named;
    for_each_picture(done, [&](const Picture& picture) {
        if (const auto items = lost_of(picture, Look::AtTheEnd); !items.empty()) named.add(picture.key, items.size());
    });
    if (named.empty()) return;
    throw Error(ErrorKind::CannotWrite,
                "finished results are gone, of " + named.text() + ": " + outputs_.front().canvases +
                    ", or a mask, was removed or changed during the run",
                "Do not change the output folder during a run; --resume processes them again");
}

}  // namespace offramp
