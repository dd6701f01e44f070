#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "common/app/texts/text_table.hpp"
#include "consumer/processors/pictures/original_images.hpp"

namespace offramp {

// The input's data about its samples besides names and pictures, found by the samples' keys: the further members of a
// manifest's line, the further columns of a table of texts and their ids. For a processor or sink whose results have
// rows, to hand them through. Owns the list of the input. Thread: one. Blocks: on the disk.
class InputColumns {
  public:
    // `processor`: who asks, for messages; `run_dir`: of the run, empty where there is none. Errors: those of
    // InputIndex, open_texts() and require_listed_rows().
    InputColumns(const InputSettings& config, std::string_view processor, const std::string& run_dir = {});

    // The input is a table of texts, whose ids are as it has them: keys may be other ones.
    bool has_ids() const { return texts_ != nullptr; }
    // `columns` is "{}" when the input has none, `id` empty when it is not a table of texts. Errors: Error with NoInput
    // when the input has no such sample any more, or it cannot be read any more.
    BesideText of(std::string_view key) const;
    // The same of a sample that was skipped; "{}" and no id also when the input names no such sample, or its line is
    // what could not be read.
    BesideText of_skipped(std::string_view key) const;

  private:
    std::optional<std::uint64_t> find(std::string_view key) const;
    BesideText at(std::uint64_t number) const;
    std::string origin(std::uint64_t number) const;

    // One of the two.
    std::optional<InputIndex> pictures_;
    std::unique_ptr<TextTable> texts_;
    bool in_chunks_ = false;  // samples are parts of texts, and have their columns
    // The text that was requested last: its chunks follow each other, and a row may be long.
    mutable std::optional<std::pair<std::uint64_t, BesideText>> last_;
    std::unordered_map<std::string_view, std::uint64_t> texts_by_key_;  // by the table's own keys
};

// Nothing when the run's input is none that can have columns: then it is not listed. Errors: those of InputColumns.
std::optional<InputColumns> columns_of_input(const InputSettings& config, std::string_view processor,
                                             const std::string& run_dir);

}  // namespace offramp
