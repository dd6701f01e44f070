#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/app/images/item_keys.hpp"
#include "common/app/images/list_index.hpp"
#include "common/app/images/picture_bytes.hpp"
#include "common/base/error.hpp"
#include "common/base/items.hpp"
#include "common/base/string_list.hpp"

namespace offramp {

struct InputSettings;

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
    virtual std::string_view key(std::uint64_t picture) const = 0;  // from ItemKeys
    virtual PicturePlace place(std::uint64_t picture) const = 0;
    // The picture's file as the input names it; empty: only place() shows it.
    virtual std::string_view file_name(std::uint64_t) const { return {}; }
    // The name of an unreadable picture, fit for a log line.
    virtual std::string origin(std::uint64_t picture) const = 0;
    // The input's data about a picture besides its name and location: the text of a JSON object, "{}" if none.
    virtual std::string columns(std::uint64_t) const { return "{}"; }
    // A hash that changes when the columns change, as far as the list itself shows it; 0 without columns.
    virtual std::uint64_t columns_hash(std::uint64_t) const { return 0; }
    // A hash of the picture's whole line, or of its members' locations; 0 if only the key identifies the picture.
    virtual std::uint64_t listed_hash(std::uint64_t) const { return 0; }
    // Of a list that was read in part: what is known of the whole. Null: all was read.
    virtual const ListIndex* index() const { return nullptr; }
    // The pictures that were read; ask for no others.
    virtual ItemRange at_hand() const { return {0, size()}; }
};

// The part of a job's list that a shard reads. Empty: all of it.
struct ListShare {
    std::string index;  // the path of the job's index
    std::string shard;  // I/N
    // A shard's first and last batch may hold items of its neighbours: it reads whole batches of this many items.
    std::uint32_t batch = 1;
};

// The share that a shard reads with these settings. It is empty if the items are not the list's pictures (--tile), or
// not all of them (--limit), or if their shapes are read first: such a job has no index.
ListShare share_of_list(const InputSettings& config);

// Lists the pictures of `input` for a source: "images", "jsonl" or "webdataset" (gives_pictures() in
// common/app/settings). `listed`: a file with the folder's listing (text_of_listed_files()), so that the folder is not
// walked; empty: none. `share`: without a usable index, the whole list is read, and the reason is logged. Errors:
// ConfigError NoInput: a missing input, no permission, no picture; BadInput: not an input of that source; the share has
// other bytes than those of which the index was made.
std::unique_ptr<PictureList> open_pictures(std::string_view source, const std::string& input,
                                           const StillWanted& still_wanted = {}, const std::string& listed = {},
                                           const ListShare& share = {});

// The paths of the image files that --input names, in a stable order. Holds names only; no file is opened.
struct FileList {
    std::string description;                           // "1200 files under /data/photos"
    std::string root;                                  // base of relative names
    StringList names;                                  // relative to root, or absolute (from a list file)
    std::uint64_t other_files = 0;                     // files in a walked folder without a picture's extension
    std::shared_ptr<const ListIndex> index = nullptr;  // names are a part of its list; null: all of one
    std::uint64_t first = 0;                           // number of the first of names
};

// `input` is a folder, a list file, or one image. A folder is walked recursively: hidden entries are skipped, links are
// followed, each folder is visited once. Files are selected by extension and sorted bytewise by relative path. A folder
// that cannot be listed is in the list itself, so that it is reported. A list file has one path per line, relative to
// its own folder; blank lines and lines that begin with # are skipped. Errors: ConfigError NoInput: missing path, no
// permission, no image; BadInput: none of the three. `parts`: of a list file, for its index; null: not wanted.
FileList list_image_files(const std::string& input, const StillWanted& still_wanted = {},
                          std::vector<ListPart>* parts = nullptr);

// The contents of a file that stores the result of list_image_files(): the number of names in decimal and a newline,
// then each name and a zero byte. Many programs can thus share one walk of a folder, and see the same items.
std::string text_of_listed_files(const FileList& list);
// Reads the listing of the folder `input` from the file `listed`, without reading the folder. Errors: ConfigError
// NoInput: `listed` cannot be read; BadInput: it is truncated, or another kind of file.
FileList read_listed_files(const std::string& input, const std::string& listed, std::vector<ListPart>* parts = nullptr);

// ListIndex::describe() and read() for the list of an input. `listed`: as for open_pictures().
void describe_list(const std::string& input, const std::string& listed, ListIndex& index);
std::shared_ptr<const ListIndex> index_of_list(const std::string& path, const std::string& input,
                                               const std::string& listed);

// The images of a folder, a list file, or one image. Errors: those of list_image_files() and read_listed_files().
class FilePictures final : public PictureList {
  public:
    explicit FilePictures(const std::string& input, const StillWanted& still_wanted = {});
    explicit FilePictures(FileList files);

    std::string description() const override { return description_; }
    std::vector<LeftOut> left_out() const override {
        if (other_files_ == 0) return {};
        return {{"other files, which do not have a picture's extension", other_files_}};
    }
    std::uint64_t size() const override { return index_ ? index_->items : keys_.size(); }
    std::string_view key(std::uint64_t picture) const override { return keys_[read(picture)]; }
    PicturePlace place(std::uint64_t picture) const override { return path(picture); }
    std::string_view file_name(std::uint64_t picture) const override { return keys_.name(read(picture)); }
    std::string origin(std::uint64_t picture) const override;
    const ListIndex* index() const override { return index_.get(); }
    ItemRange at_hand() const override { return {first_, first_ + keys_.size()}; }
    // An index may stand for these keys.
    bool keys_are_independent() const { return keys_.are_independent(); }

  private:
    std::string path(std::uint64_t picture) const;
    [[noreturn]] void refuse(std::uint64_t picture) const;
    // The picture's place among those that were read. Errors: Error with Internal for another one.
    std::uint64_t read(std::uint64_t picture) const {
        if (picture - first_ >= keys_.size()) refuse(picture);
        return picture - first_;
    }

    const std::string description_;
    const std::string root_;
    const std::uint64_t other_files_;
    const std::shared_ptr<const ListIndex> index_;
    const std::uint64_t first_;
    const ItemKeys keys_;
};

}  // namespace offramp
