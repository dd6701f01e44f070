#include "producer/runner/sources/picture_source.hpp"

namespace offramp {

// The pictures of WebDataset shards.
std::unique_ptr<BatchSource> make_webdataset(const SourceOptions& options) {
    return make_picture_source("webdataset", options);
}

}  // namespace offramp
