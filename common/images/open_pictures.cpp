#include "common/images/open_pictures.hpp"

#include "common/base/error.hpp"
#include "common/images/file_pictures.hpp"
#include "common/images/jsonl_pictures.hpp"
#include "common/images/tar_pictures.hpp"

namespace offramp {

bool gives_columns(std::string_view source) { return source == "jsonl" || source == "webdataset"; }

bool gives_pictures(std::string_view source) { return source == "images" || gives_columns(source); }

std::unique_ptr<PictureList> open_pictures(std::string_view source, const std::string& input, const StillWanted& still_wanted) {
    expect(gives_pictures(source), "it is asked first whether a source gives pictures");
    if (source == "jsonl") return std::make_unique<JsonlPictures>(input);
    if (source == "webdataset") return std::make_unique<TarPictures>(input, still_wanted);
    return std::make_unique<FilePictures>(input, still_wanted);
}

}  // namespace offramp
