#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/app/images/encoded_picture.hpp"
#include "common/app/images/picture_list.hpp"
#include "common/app/images/picture_stamps.hpp"
#include "common/app/images/unreadable_item.hpp"
#include "common/app/settings/sections.hpp"
#include "common/app/texts/text_table.hpp"
#include "common/base/items.hpp"
#include "common/wire/tensor_spec.hpp"
#include "producer/runner/models/input_parts.hpp"
#include "producer/runner/sources/item_shapes.hpp"

namespace offramp {

// A row of a staging buffer, for a source to fill.
enum class RowKind {
    Nothing,  // no host data: the batch is resident on the device, or the model needs no input
    Pixels,   // [height, width, 3] 8-bit RGB; normalised on the device
    Float32,  // the model's input itself, float32, row-major
    Tokens,   // the model's input itself, int32 [2, length]: ids, and a mask (1 for text, 0 for padding)
    Arrays,   // the model's input itself: several arrays, each at the place of its part
};

// A numbered list of items that decode workers turn into rows. Item i is the same input in every run with the same
// settings. Thread: load() from many concurrently; the rest before the first load, about items also from many. Blocks:
// load() while it reads. Errors: the constructors throw ConfigError NoInput / BadInput; load() throws UnreadableItem,
// and nothing else for bad data.
class BatchSource {
  public:
    virtual ~BatchSource() = default;
    virtual std::string description() const = 0;  // "images: 1200 files under /data/photos"
    // Parts of the input without an item, or missing from an item, as far as known yet. Thread: any.
    virtual std::vector<LeftOut> left_out() const { return {}; }
    virtual std::uint64_t items() const = 0;  // the whole source: --limit and --shard apply later (part_of())
    virtual RowKind row_kind() const = 0;
    // For a model whose input varies: the shape of the item's row, as the model takes it. Empty: it cannot be read, and
    // load() throws the reason; for other models always empty.
    virtual std::span<const std::int64_t> shape(std::uint64_t) const { return {}; }
    // The item's stable name: a relative path without its extension, unique within the run, never empty or absolute,
    // without "..", at most kMaxKeyBytes bytes; or empty: the item's number serves as its name.
    virtual std::string_view key(std::uint64_t item) const = 0;
    // The item's name in results that combine several items, such as a picture's tiles.
    virtual std::string_view key_of_whole(std::uint64_t item) const { return key(item); }
    virtual std::size_t max_key_bytes() const = 0;
    // A hash of the data, besides an item's name and bytes, that results depend on: columns of a manifest, an array's
    // shape. 0: none.
    virtual std::uint64_t note_hash(std::uint64_t) const { return 0; }
    // For a part of a picture: the state that the run requires of the picture's file
    // (common/app/images/picture_stamps.hpp). 0: unknown.
    virtual std::uint64_t stamp(std::uint64_t) const { return 0; }
    // False: note_hash is 0 for every item.
    virtual bool has_notes() const { return true; }
    // True if items have no keys and notes identify their contents: more items after the earlier ones are then
    // recognised.
    virtual bool grows_at_its_end() const { return false; }
    // For a part of another source (part_of()): that source's number of items. It also identifies sources without
    // names.
    virtual std::uint64_t items_of_the_whole() const { return items(); }
    // PictureList::index() and at_hand(): ask for nothing about other items.
    virtual const ListIndex* index() const { return nullptr; }
    virtual ItemRange at_hand() const { return {0, items()}; }
    // The name in the list of skipped items: the file's path.
    virtual std::string origin(std::uint64_t item) const = 0;
    // The item's file, if the item is a whole file; otherwise empty.
    virtual std::string file(std::uint64_t) const { return {}; }
    // The end of file(), from a '/' at the latest, without the cost of its path; empty: file() must be asked.
    virtual std::string_view end_of_file(std::uint64_t) const { return {}; }
    // False: file() is empty for every item.
    virtual bool has_files() const { return true; }
    // Fills one row of a staging buffer. A row of Pixels has height*width*3 bytes; one of Float32, Tokens or Arrays has
    // the bytes of the model's input row. Gaps of Arrays may be left unchanged.
    virtual void load(std::uint64_t item, std::span<std::byte> row) = 0;
    // The same for a run that decodes pictures on its GPU: may instead give the picture's file (EncodedPicture::file).
    virtual void load_for_gpu(std::uint64_t item, std::span<std::byte> row, EncodedPicture& encoded) {
        encoded.file.clear();
        load(item, row);
    }
};

// The fix to suggest when a model takes arrays and the source has none.
inline constexpr const char* kGiveArrays =
    "Use --source npy, with --input FOLDER, which has a file of each; or --source synthetic";

// The settings and shared data from which a source is made.
struct SourceOptions {
    const InputSettings* input = nullptr;  // resolved, like the model's settings
    const ModelSettings* model = nullptr;
    TensorSpec model_input;  // for a full batch; no dimensions if the model needs no input
    bool model_takes_images = false;
    std::vector<InputPart> parts;   // for a model of arrays: their places in a row; otherwise empty
    std::string prompt;             // for a model of texts: precedes each text
    bool columns_are_read = false;  // a processor needs the columns for every item
    StillWanted still_wanted;       // checked while a long listing runs
    // listed earlier (open_input()); null: a source of pictures lists them
    std::shared_ptr<PictureList> pictures = nullptr;
    std::shared_ptr<TextTable> texts = nullptr;  // like `pictures`, for tables of texts
    PictureStamps stamps{};                      // in a recovered run: the required states of its pictures
    // of the items, for a model whose input varies; otherwise null
    std::shared_ptr<const ItemShapes> shapes = nullptr;
};

struct SourceEntry {
    std::string_view name;
    std::unique_ptr<BatchSource> (*make)(const SourceOptions& options);

    static std::span<const SourceEntry> all();
};

}  // namespace offramp
