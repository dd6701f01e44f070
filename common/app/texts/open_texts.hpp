#pragma once

#include <memory>

#include "common/app/images/still_wanted.hpp"
#include "common/app/settings/sections/input_settings.hpp"
#include "common/app/texts/text_table.hpp"

namespace offramp {

// Lists what --input names, as --source reads it: "jsonl-text" or "parquet-text", one that gives_text_tables()
// (common/app/settings). Errors: ConfigError with the file, the line or row, the value and the remedy: Usage: a column
// is named twice, or there is no module for Parquet; NoInput: a missing or empty file; BadInput: not what the source
// reads.
std::unique_ptr<TextTable> open_texts(const InputSettings& config, const StillWanted& still_wanted = {});

}  // namespace offramp
