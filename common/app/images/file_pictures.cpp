#include "common/app/images/file_pictures.hpp"

#include <utility>

#include "common/app/images/item_keys.hpp"

namespace offramp {

FilePictures::FilePictures(const std::string& input, const StillWanted& still_wanted)
    : FilePictures(list_image_files(input, still_wanted)) {}

FilePictures::FilePictures(FileList files) : files_(std::move(files)), keys_(make_item_keys(files_.key_names())) {}

std::string FilePictures::origin(std::uint64_t picture) const { return printable(files_.path(picture)); }

}  // namespace offramp
