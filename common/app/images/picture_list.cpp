#include "common/app/images/picture_list.hpp"

#include "common/app/images/file_list.hpp"
#include "common/app/images/jsonl_pictures.hpp"
#include "common/app/images/tar_pictures.hpp"
#include "common/base/error.hpp"

namespace offramp {

std::unique_ptr<PictureList> open_pictures(std::string_view source, const std::string& input,
                                           const StillWanted& still_wanted, const std::string& listed) {
    if (source == "jsonl") return std::make_unique<JsonlPictures>(input);
    if (source == "webdataset") return std::make_unique<TarPictures>(input, still_wanted);
    expect(source == "images", "it is asked first whether a source gives pictures");
    return std::make_unique<FilePictures>(listed.empty() ? list_image_files(input, still_wanted)
                                                         : read_listed_files(input, listed));
}

}  // namespace offramp
