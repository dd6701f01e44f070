#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/app/images/picture_bytes.hpp"
#include "common/base/items.hpp"

namespace offramp {

// Called in the middle of a listing, which may take long; throws when that is to end. May be empty.
using StillWanted = std::function<void()>;

// The pictures that a run's input names, in an order that stays: their names, their places, and their further data in
// the input. The producer reads them by number; consumers list the same input and find what belongs to a sample by its
// key. Holds names, not pictures. Thread: any, it never changes. Blocks: on the disk. Errors: place() and columns():
// UnreadableItem with the reason.
class PictureList {
  public:
    virtual ~PictureList() = default;
    virtual std::string description() const = 0;  // "1200 files under /data/photos"
    virtual std::uint64_t size() const = 0;
    // Other contents of the input.
    virtual std::vector<LeftOut> left_out() const { return {}; }
    virtual std::string_view key(std::uint64_t picture) const = 0;  // as make_item_keys() makes them
    virtual PicturePlace place(std::uint64_t picture) const = 0;
    // The name of an unreadable picture, fit for a log line.
    virtual std::string origin(std::uint64_t picture) const = 0;
    // The input's data about a picture besides its name and place: the text of a JSON object, "{}" for none.
    virtual std::string columns(std::uint64_t) const { return "{}"; }
    // A hash that changes when columns change, as far as the list itself shows them; 0 for none.
    virtual std::uint64_t columns_hash(std::uint64_t) const { return 0; }
    // Distinguishes listings of a picture: its whole line, or the places of its members; 0 for no more than its key.
    virtual std::uint64_t listed_hash(std::uint64_t) const { return 0; }
};

// Lists what `input` names, as that source reads it: "images", "jsonl", "webdataset", one that gives_pictures()
// (common/app/settings). `listed`: a file with the listing of a folder of images (text_of_listed_files()), which is not
// walked then; empty: none. Errors: ConfigError NoInput: a missing input, no permission, nothing in it; BadInput: not
// what the source reads.
std::unique_ptr<PictureList> open_pictures(std::string_view source, const std::string& input,
                                           const StillWanted& still_wanted = {}, const std::string& listed = {});

}  // namespace offramp
