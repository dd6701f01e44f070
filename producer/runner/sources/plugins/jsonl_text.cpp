#include "producer/runner/sources/text/tokenized_texts.hpp"

namespace offramp {

// Texts with ids and columns, one JSON object a line.
std::unique_ptr<BatchSource> make_jsonl_text(const SourceOptions& options) {
    return make_table_source("jsonl-text", options);
}

}  // namespace offramp
