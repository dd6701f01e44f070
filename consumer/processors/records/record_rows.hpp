#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "consumer/processors/processor.hpp"
#include "consumer/processors/records/input_columns.hpp"
#include "consumer/processors/segmentation/class_ids.hpp"
#include "consumer/processors/segmentation/segmentation_output.hpp"

namespace offramp {

// The record of one item, as JSON objects in UTF-8.
struct RecordRow {
    const SampleView* sample = nullptr;
    std::string files = "{}";            // {"mask-png": ["mask-png/a.png"]}: paths below the run's output folder
    std::optional<std::string> classes;  // {"0": 0.75, "15": 0.25}; of several outputs {"out": {...}, "aux": {...}};
                                         // nothing: the model has no classes
    std::optional<std::string> id;       // as the input, a table of texts, has it; nothing: none, or it cannot be read
    std::string columns = "{}";          // of the input, or the sample's metadata
};

// Makes a row for each item, for processors that write a table of items. The row has the files that the run's other
// processors write, the share of pixels of each class, and the item's input columns or metadata. An empty row has only
// the columns.
//
// Borrows: what the options refer to. Owns the list of the input and scratch memory. Thread: one. Errors: those of
// InputColumns and ClassIds.
class RecordRows {
  public:
    // `processor`: the caller, for messages.
    RecordRows(const ProcessorOptions& options, std::string_view processor);

    // True if the input is a table of texts: only its rows have an id column.
    bool have_ids() const { return columns_ && columns_->has_ids(); }
    // One row for each sample of the slab. Valid until the next call, and only while the slab is.
    std::span<const RecordRow> of(const SlabContents& slab, const Progress& progress);

  private:
    std::string files_of_others(const SlabContents& slab, const SampleView& sample) const;
    std::string classes_of(const std::vector<SegmentationOutput>& outputs, const SampleView& sample,
                           const Progress& progress);

    const std::vector<NamedProcessor>* chain_;
    std::optional<InputColumns> columns_;  // nothing: the input has no columns
    ClassIds ids_;
    std::vector<RecordRow> rows_;
};

}  // namespace offramp
