#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "common/app/images/picture_list.hpp"
#include "common/app/images/tar_index.hpp"

namespace offramp {

// The pictures of WebDataset shards: `input` is one .tar file, or a folder whose .tar files are taken in the order of
// their names (also those of folders below). A sample is the run of members whose names are equal up to the first dot
// behind the last slash: a/7.jpg, a/7.json, a/7.cls. Its picture is the member with an image's extension; members .json
// (an object) give columns, .txt and .cls a column of that name. Of a sample with several pictures the one with nothing
// but an extension counts (7.jpg beside 7.mask.png); where all have more (7.left.jpg, 7.right.jpg), each is an item,
// 7.left and 7.right. Keys are SHARD/SAMPLE, SHARD without .tar, so that one shard alone gives the keys that it has
// among others. A sample without a picture, and a shard that is truncated or damaged (once, behind what could be read
// of it), are pictures that cannot be read. Every other member is counted (left_out). Holds names and places, not
// bytes. Blocks: the constructor reads every member's header. Errors: the constructor: ConfigError NoInput: no such
// input, no permission, no shard, nothing in them; BadInput: not a tar file or folder.
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
    // Sizes and kinds of the members that columns are read from.
    std::uint64_t columns_hash(std::uint64_t picture) const override;
    // Where its members lie.
    std::uint64_t listed_hash(std::uint64_t picture) const override;

  private:
    struct Part {
        std::uint64_t offset = 0;
        std::uint64_t bytes = 0;
        std::string extension;  // "jpg"; behind the first dot
    };
    struct Sample {
        std::uint32_t shard = 0;
        Part picture;
        std::vector<Part> notes;
    };
    // The members of one sample's name.
    struct Members {
        std::string name;
        std::vector<Part> pictures, notes;
        std::string extensions;  // of all, for people

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
    std::vector<std::string> keys_;                          // at first the names that they are made of
    TarLeftOut passed_over_;                                 // of all shards
    std::uint64_t continuing_ = 0;                           // shards that go on behind their end mark
    std::uint64_t further_pictures_ = 0;                     // of samples that have their picture
    std::uint64_t repeated_ = 0;                             // members of a name that the sample has already
    std::uint64_t other_members_ = 0;                        // neither pictures nor notes
    std::unordered_map<std::uint64_t, std::string> broken_;  // by picture: why
};

}  // namespace offramp
