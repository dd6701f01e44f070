#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "common/app/images/picture_list.hpp"
#include "common/app/images/tar_index.hpp"

namespace offramp {

// The pictures of WebDataset shards. `input` is one .tar file, or a folder whose .tar files are read in the order of
// their names (subfolders included). A sample is a sequence of members whose names are equal up to the first dot after
// the last slash: a/7.jpg, a/7.json, a/7.cls. Its picture is the member with an image extension. A .json member (an
// object) gives columns; .txt and .cls members give a column of that name. If a sample has several pictures, the one
// with only an extension counts (7.jpg, not 7.mask.png). If all have more (7.left.jpg, 7.right.jpg), each is an item:
// 7.left and 7.right. Keys are SHARD/SAMPLE, SHARD without .tar, so that a shard has the same keys alone and among
// others. A sample without a picture is an unreadable picture. A truncated or damaged shard adds one unreadable picture
// after its readable samples. left_out() counts every other member. Holds names and locations, not data. Blocks: the
// constructor reads every member's header. Errors: the constructor: ConfigError NoInput: missing input, no permission,
// no shard, empty shards; BadInput: not a tar file or folder.
class TarPictures final : public PictureList {
  public:
    explicit TarPictures(const std::string& input, const StillWanted& still_wanted = {});

    std::string description() const override;
    std::uint64_t size() const override { return samples_.size(); }
    std::vector<LeftOut> left_out() const override;
    std::string_view key(std::uint64_t picture) const override { return keys_[picture]; }
    PicturePlace place(std::uint64_t picture) const override;
    std::string origin(std::uint64_t picture) const override;
    std::string columns(std::uint64_t picture) const override;
    // Hashes sizes and kinds of the members that give columns.
    std::uint64_t columns_hash(std::uint64_t picture) const override;
    // Hashes the positions of its members.
    std::uint64_t listed_hash(std::uint64_t picture) const override;

  private:
    struct Part {
        std::uint64_t offset = 0;
        std::uint64_t bytes = 0;
        std::string extension;  // "jpg"; all after the first dot
    };
    struct Sample {
        std::uint32_t shard = 0;
        Part picture;
        std::vector<Part> notes;
    };
    // The members of one sample.
    struct Members {
        std::string name;
        std::vector<Part> pictures, notes;
        std::string extensions;  // of all members, for error texts

        bool add(Part part);
    };

    void read_shard(const std::string& name);
    void add_broken(std::uint32_t shard, const std::string& name, std::string why);
    void finish(std::uint32_t shard, const std::string& prefix, Members members);
    void add_each(std::uint32_t shard, const std::string& name, const Members& members);
    void check_usable(std::uint64_t picture) const;
    std::string text_of(const Sample& sample, const Part& part) const;

    std::string folder_;
    std::string input_;
    std::vector<std::string> shards_;  // paths
    std::vector<Sample> samples_;
    StringList names_;  // while reading: keys_ owns them then
    ItemKeys keys_;
    TarLeftOut passed_over_;                                 // in all shards
    std::uint64_t continuing_ = 0;                           // shards with data after their end mark
    std::uint64_t further_pictures_ = 0;                     // pictures beyond a sample's own
    std::uint64_t repeated_ = 0;                             // members with a name that the sample already has
    std::uint64_t other_members_ = 0;                        // neither pictures nor notes
    std::unordered_map<std::uint64_t, std::string> broken_;  // the reason, by picture
};

}  // namespace offramp
