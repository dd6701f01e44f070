#include "producer/runner/sources/picture_source.hpp"

namespace offramp {

// A manifest of pictures, one JSON object a line.
std::unique_ptr<BatchSource> make_jsonl(const SourceOptions& options) { return make_picture_source("jsonl", options); }

}  // namespace offramp
