#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "common/app/texts/text_table.hpp"
#include "common/base/string_index.hpp"
#include "consumer/processors/pictures/original_images.hpp"

namespace offramp {

// Finds the input's additional data by sample key, so that processors and sinks can add it to their rows: further
// members of a manifest's line, further columns of a table of texts, and the texts' ids. Owns the list of the input.
// Thread: one. Blocks: on the disk.
class InputColumns {
  public:
    // `processor`: the caller, for messages; `run_dir`: the run's directory, or empty. Errors: those of InputIndex,
    // open_texts() and require_listed_rows().
    InputColumns(const InputSettings& config, std::string_view processor, const std::string& run_dir = {});

    // True if the input is a table of texts. Its ids are unchanged and may differ from the keys.
    bool has_ids() const { return texts_ != nullptr; }
    // `columns` is "{}" when the input has none; `id` is empty when the input is not a table of texts. Errors: Error
    // with NoInput when the input no longer has the sample, or it can no longer be read.
    BesideText of(std::string_view key) const;
    // Like of(), for a skipped sample. Also returns "{}" and no id when the input has no such sample, or its line could
    // not be read.
    BesideText of_skipped(std::string_view key) const;

  private:
    std::optional<std::uint64_t> find(std::string_view key) const;
    BesideText at(std::uint64_t number) const;
    std::string origin(std::uint64_t number) const;

    // Exactly one of these two is set.
    std::optional<InputIndex> pictures_;
    std::unique_ptr<TextTable> texts_;
    bool in_chunks_ = false;  // samples are chunks of texts, and have the texts' columns
    // The last text requested: its chunks follow each other, and a row may be long.
    mutable std::optional<std::pair<std::uint64_t, BesideText>> last_;
    StringIndex texts_by_key_;
};

// Returns nothing when the run's input cannot have columns; the input is then not listed. Errors: those of
// InputColumns.
std::optional<InputColumns> columns_of_input(const InputSettings& config, std::string_view processor,
                                             const std::string& run_dir);

}  // namespace offramp
