#include "common/images/file_pictures.hpp"

#include "common/images/item_keys.hpp"

namespace offramp {

FilePictures::FilePictures(const std::string& input, const StillWanted& still_wanted)
    : files_(list_image_files(input, still_wanted)), keys_(make_item_keys(files_.key_names())) {}

std::string FilePictures::origin(std::uint64_t picture) const { return printable(files_.path(picture)); }

}  // namespace offramp
