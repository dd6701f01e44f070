#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/app/settings/declared_setting.hpp"
#include "common/app/texts/text_table.hpp"
#include "common/wire/slab_view.hpp"
#include "consumer/processors/processor.hpp"
#include "consumer/processors/records/input_columns.hpp"

namespace offramp {

// An output with one vector per sample: float32, float16 or bfloat16 [N, D]. Borrows the slab.
struct VectorOutput {
    const TensorView* tensor = nullptr;
    std::uint32_t dimensions = 0;  // as stored: after --truncate-dim

    const std::string& name() const { return tensor->spec.name; }
};

// Converts each sample's vector to the form to store: keeps the first --truncate-dim numbers, scales to length 1 with
// --normalize (a vector of length 0 stays unchanged), and converts to --vector-dtype. Owns its scratch memory. Thread:
// one.
class SampleVectors {
  public:
    // `processor`: the caller, for errors.
    SampleVectors(const CatalogueValues& settings, std::string_view processor);

    // The outputs of a slab that fit. Errors: ConfigError if none fits, with the reason for each output, or if an
    // output is shorter than --truncate-dim.
    std::vector<VectorOutput> outputs(const SlabContents& slab) const;
    // The stored bytes of one sample's vector, little endian; valid until the next call.
    std::span<const std::byte> of(const VectorOutput& output, const SampleView& sample);
    // True if all numbers of the last vector are finite as stored. Tables store NULL for other vectors, because readers
    // would take infinity and NaN for numbers, and pgvector rejects them.
    bool is_finite() const { return is_finite_; }
    // Warns about vectors since the last call that were not finite.
    void report_unstored();

    // The number of vectors so far in which a finite number became infinite as float16. The first one causes a warning.
    std::uint64_t overflowed() const { return overflowed_; }

    bool normalizes() const { return normalizes_; }
    // "float32" or "float16".
    std::string_view dtype() const { return to_float16_ ? "float16" : "float32"; }

  private:
    std::span<const std::byte> make(const VectorOutput& output, std::size_t row);

    std::string processor_;
    bool normalizes_, to_float16_;
    std::uint32_t truncate_dim_;
    std::uint64_t overflowed_ = 0;
    bool is_finite_ = true;
    std::uint64_t unheld_ = 0;
    std::string first_unheld_;
    std::vector<float> numbers_;
    std::vector<std::uint16_t> halves_;
};

// The part of a vector's row that describes its sample. Borrows the sample.
struct VectorOrigin {
    std::string_view key;  // for a chunk, the key of its text
    BesideText beside;     // ColumnsBeside::columns()
    TextChunk chunk;       // ColumnsBeside::chunks()
};

// The further columns of rows of vectors: the input's columns for each sample, from a table of texts
// (--vector-columns), and the part of the text that the sample covers (--chunk-tokens). Thread: one. Blocks: on the
// disk.
class ColumnsBeside {
  public:
    // `processor`: the caller, for messages. Errors: those of InputColumns.
    ColumnsBeside(const ProcessorOptions& options, std::string_view processor);

    bool columns() const { return columns_.has_value(); }  // id, columns
    bool chunks() const { return chunks_; }                // chunk, start_char, end_char
    // The names of the present columns.
    std::vector<std::string> names() const;
    // Errors: those of InputColumns and chunk_named().
    VectorOrigin of(std::string_view key) const;

  private:
    std::optional<InputColumns> columns_;
    bool chunks_;
};

}  // namespace offramp
