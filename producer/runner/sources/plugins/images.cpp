#include "producer/runner/sources/picture_source.hpp"

namespace offramp {

// The files of a folder or a list.
std::unique_ptr<BatchSource> make_images(const SourceOptions& options) {
    return make_picture_source("images", options);
}

}  // namespace offramp
