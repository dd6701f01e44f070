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

// Called repeatedly during a listing, which may take long. Throw from it to stop the listing. May be empty.
using StillWanted = std::function<void()>;

// The pictures of a run's input, in a stable order: their names, locations and columns. The producer reads them by
// number. Consumers list the same input and find a sample's data by its key. Holds names, not pictures. Thread: any
// (immutable). Blocks: on the disk. Errors: place() and columns(): UnreadableItem with the reason.
class PictureList {
  public:
    virtual ~PictureList() = default;
    virtual std::string description() const = 0;  // "1200 files under /data/photos"
    virtual std::uint64_t size() const = 0;
    // Contents of the input that are not used as pictures.
    virtual std::vector<LeftOut> left_out() const { return {}; }
    virtual std::string_view key(std::uint64_t picture) const = 0;  // from make_item_keys()
    virtual PicturePlace place(std::uint64_t picture) const = 0;
    // The name of an unreadable picture, fit for a log line.
    virtual std::string origin(std::uint64_t picture) const = 0;
    // The input's data about a picture besides its name and location: the text of a JSON object, "{}" if none.
    virtual std::string columns(std::uint64_t) const { return "{}"; }
    // A hash that changes when the columns change, as far as the list itself shows it; 0 without columns.
    virtual std::uint64_t columns_hash(std::uint64_t) const { return 0; }
    // A hash of the picture's whole line, or of its members' locations; 0 if only the key identifies the picture.
    virtual std::uint64_t listed_hash(std::uint64_t) const { return 0; }
};

// Lists the pictures of `input` for a source: "images", "jsonl" or "webdataset" (gives_pictures() in
// common/app/settings). `listed`: a file with the folder's listing (text_of_listed_files()), so that the folder is not
// walked; empty: none. Errors: ConfigError NoInput: a missing input, no permission, no picture; BadInput: not an input
// of that source.
std::unique_ptr<PictureList> open_pictures(std::string_view source, const std::string& input,
                                           const StillWanted& still_wanted = {}, const std::string& listed = {});

}  // namespace offramp
