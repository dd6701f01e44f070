#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/app/texts/text_chunk.hpp"
#include "consumer/processors/processor.hpp"
#include "consumer/processors/records/input_columns.hpp"

namespace offramp {

// The part of a vector's row that describes its sample. Borrows the sample.
struct VectorOrigin {
    std::string_view key;  // of a chunk that of its text
    BesideText beside;     // ColumnsBeside::columns()
    TextChunk chunk;       // ColumnsBeside::chunks()
};

// The further columns of rows of vectors: those of the run's input, a table of texts, for each sample
// (--vector-columns), and the part of its text that a sample is (--chunk-tokens). Thread: one. Blocks: on the disk.
class ColumnsBeside {
  public:
    // `processor`: who asks, for messages. Errors: those of InputColumns.
    ColumnsBeside(const ProcessorOptions& options, std::string_view processor);

    bool columns() const { return columns_.has_value(); }  // id, columns
    bool chunks() const { return chunks_; }                // chunk, start_char, end_char
    // The names of the columns that exist.
    std::vector<std::string> names() const;
    // Errors: those of InputColumns and chunk_named().
    VectorOrigin of(std::string_view key) const;

  private:
    std::optional<InputColumns> columns_;
    bool chunks_;
};

}  // namespace offramp
