#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/left_out.hpp"
#include "common/images/picture_list.hpp"
#include "common/images/picture_stamps.hpp"
#include "common/images/still_wanted.hpp"
#include "common/images/unreadable_item.hpp"
#include "common/settings/sections/input_settings.hpp"
#include "common/settings/sections/model_settings.hpp"
#include "common/texts/text_table.hpp"
#include "common/wire/tensor_spec.hpp"
#include "producer/runner/models/input_parts.hpp"

namespace offramp {

// What a source puts into a row of a staging buffer.
enum class RowKind {
    Nothing,  // no host data: the batch is resident on the device, or the model needs no input
    Pixels,   // [height, width, 3] 8-bit RGB; normalised on the device
    Float32,  // the model's input itself, float32, row-major
    Tokens,   // the model's input itself, int32 [2, length]: ids, and 1 where the text is, 0 where it was filled up
    Arrays,   // the model's input itself: several arrays, each where its part says
};

// A numbered list of items that decode workers turn into rows. Item i is the same input in every run with the
// same settings. Thread: load() from many at once; the rest before the first load. Blocks: load() while it
// reads. Errors: constructing one throws ConfigError NoInput / BadInput; load() throws UnreadableItem, and
// nothing else for bad data.
class BatchSource {
  public:
    virtual ~BatchSource() = default;
    virtual std::string description() const = 0;  // "images: 1200 files under /data/photos"
    // Parts of the input that no item is made of, or that an item lacks; what is known of that by now. Thread: any.
    virtual std::vector<LeftOut> left_out() const { return {}; }
    virtual std::uint64_t items() const = 0;  // all of them: --limit and --shard come behind (part_of())
    virtual RowKind row_kind() const = 0;
    // The item's stable name: a relative path without its extension, unique within the run, never empty or absolute,
    // without
    // "..", at most kMaxKeyBytes bytes; or empty: the item's number stands for it.
    virtual std::string_view key(std::uint64_t item) const = 0;
    // The name that stands for it in results that a processor makes of several items together, as of a picture's tiles.
    virtual std::string_view key_of_whole(std::uint64_t item) const { return key(item); }
    virtual std::size_t max_key_bytes() const = 0;
    // A hash of what results depend on beside an item's name and its bytes: columns of a manifest, an array's shape. 0:
    // nothing.
    virtual std::uint64_t note_hash(std::uint64_t) const { return 0; }
    // Of an item that is a part of a picture: the state of the picture's file that the run is held to
    // (common/images/picture_stamps.hpp). 0: none is known.
    virtual std::uint64_t stamp(std::uint64_t) const { return 0; }
    // False: note_hash is 0 for every item, and nobody need ask each.
    virtual bool has_notes() const { return true; }
    // True where items have no keys, and notes tell what they hold: more of them behind those that were there are known
    // as such.
    virtual bool grows_at_its_end() const { return false; }
    // Where it is a part of another (part_of()): of how many items. What has no names is known to be the same by that,
    // too.
    virtual std::uint64_t items_of_the_whole() const { return items(); }
    // What to name in the list of skipped items: the file's path.
    virtual std::string origin(std::uint64_t item) const = 0;
    // The file that an item is, where it is one as a whole; empty otherwise.
    virtual std::string file(std::uint64_t) const { return {}; }
    // False: file() is empty for every item, and nobody need ask each.
    virtual bool has_files() const { return true; }
    // Fills one row of a staging buffer. A row of Pixels has height*width*3 bytes, of Float32 and Tokens
    // those of the model's input row, as one of Arrays, whose gaps may be left as they are.
    virtual void load(std::uint64_t item, std::span<std::byte> row) = 0;
};

// What to do about a model that takes arrays, and a source that gives none.
inline constexpr const char* kGiveArrays =
    "Use --source npy, with --input FOLDER, which has a file of each; or --source synthetic";

// What a source is made from.
struct SourceOptions {
    const InputSettings* input = nullptr;  // resolved, as those of the model
    const ModelSettings* model = nullptr;
    TensorSpec model_input;  // of a full batch; dims 0 when the model needs none
    bool model_takes_images = false;
    std::vector<InputPart> parts;   // of a model of arrays: what is where in a row; else none
    std::string prompt;             // of a model of texts: stands in front of each
    bool columns_are_read = false;  // by a processor, which has no place for an item without them
    StillWanted still_wanted;       // where listing takes long
    // that were listed before (open_input()); null: a source of pictures lists them
    std::shared_ptr<PictureList> pictures = nullptr;
    std::shared_ptr<TextTable> texts = nullptr;  // the same of tables of texts
    PictureStamps stamps{};                      // of a run that is recovered: what its pictures are held to
};

struct SourceEntry {
    std::string_view name;
    std::unique_ptr<BatchSource> (*make)(const SourceOptions& options);

    static std::span<const SourceEntry> all();
};

}  // namespace offramp
