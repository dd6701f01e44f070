#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/app/images/picture_list.hpp"

namespace offramp {

// The image files that an --input names, in a stable order, and where they lie. Only names: no file is
// opened.
struct FileList {
    std::string description;         // "1200 files under /data/photos"
    std::string root;                // what relative names start at
    std::vector<std::string> names;  // relative to root, or absolute (of a list file)
    std::uint64_t other_files = 0;   // of a folder that was walked: not called as pictures are

    std::string path(std::size_t index) const;
    // The names as make_item_keys wants them: those under root relative to it.
    std::vector<std::string> key_names() const;
};

// `input` is a folder (walked to its depths, hidden entries left out, links followed but each folder taken once; files
// by their extension, sorted bytewise by relative path; a folder that may not be listed is in the list itself, so that
// it is reported), a list file (one path a line, relative to the list's folder, blank lines and those that begin with #
// skipped), or one image. Errors: ConfigError NoInput: no such path, no permission, nothing in it; BadInput: neither of
// the three.
FileList list_image_files(const std::string& input, const StillWanted& still_wanted = {});

// The result of list_image_files(), as a file: the number of names in decimal and a newline, then each name and a zero
// byte. So many programs can work on one folder that is walked once, and see the same items in it.
std::string text_of_listed_files(const FileList& list);
// The listing of the folder `input` from the file `listed`; the folder is not read. Errors: ConfigError NoInput:
// `listed` cannot be read; BadInput: it is truncated, or another kind of file.
FileList read_listed_files(const std::string& input, const std::string& listed);

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
