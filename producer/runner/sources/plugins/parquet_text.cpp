#include "producer/runner/sources/text/tokenized_texts.hpp"

namespace offramp {

// Texts with ids and columns, rows of a Parquet file.
std::unique_ptr<BatchSource> make_parquet_text(const SourceOptions& options) {
    return make_table_source("parquet-text", options);
}

}  // namespace offramp
