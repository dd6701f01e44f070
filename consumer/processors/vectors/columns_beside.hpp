#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/app/texts/text_chunk.hpp"
#include "consumer/processors/processor.hpp"
#include "consumer/processors/records/input_columns.hpp"

namespace offramp {

// What stands in a vector's row that tells of its sample. Borrows the sample.
struct VectorOrigin {
    std::string_view key;  // of a chunk that of its text
    BesideText beside;     // ColumnsBeside::columns()
    TextChunk chunk;       // ColumnsBeside::chunks()
};

// What rows of vectors have beside them: what the run's input, a table of texts, says of each sample
// (--vector-columns), and which part of its text a sample is (--chunk-tokens). Thread: one. Blocks: on the disk.
class ColumnsBeside {
  public:
    // `processor`: who asks, for messages. Errors: those of InputColumns.
    ColumnsBeside(const ProcessorOptions& options, std::string_view processor);

    bool columns() const { return columns_.has_value(); }  // id, columns
    bool chunks() const { return chunks_; }                // chunk, start_char, end_char
    // Those names, as far as they are there.
    std::vector<std::string> names() const;
    // Errors: those of InputColumns and chunk_named().
    VectorOrigin of(std::string_view key) const;

  private:
    std::optional<InputColumns> columns_;
    bool chunks_;
};

}  // namespace offramp
