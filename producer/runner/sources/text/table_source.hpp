#pragma once

#include <memory>
#include <string>

#include "producer/runner/sources/batch_source.hpp"

namespace offramp {

// A source of the texts of a table, read as --source `name` (common/app/texts/open_texts.hpp), named by their ids.
// Errors: those of open_texts() and tokenizer_settings(). Thread, blocks: BatchSource's.
std::unique_ptr<BatchSource> make_table_source(const std::string& name, const SourceOptions& options);

}  // namespace offramp
