#pragma once

#include <string>
#include <vector>

#include "common/app/images/file_list.hpp"
#include "common/app/images/picture_list.hpp"

namespace offramp {

// The files of a folder or a list, or a single one (list_image_files and read_listed_files, which see for errors).
class FilePictures final : public PictureList {
  public:
    explicit FilePictures(const std::string& input, const StillWanted& still_wanted = {});
    explicit FilePictures(FileList files);

    std::string description() const override { return files_.description; }
    std::vector<LeftOut> left_out() const override {
        if (files_.other_files == 0) return {};
        return {{"other files, which do not have a picture's extension", files_.other_files}};
    }
    std::uint64_t size() const override { return keys_.size(); }
    std::string_view key(std::uint64_t picture) const override { return keys_[picture]; }
    PicturePlace place(std::uint64_t picture) const override { return files_.path(picture); }
    std::string origin(std::uint64_t picture) const override;

  private:
    FileList files_;
    std::vector<std::string> keys_;
};

}  // namespace offramp
