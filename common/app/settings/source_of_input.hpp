#pragma once

#include <string>
#include <string_view>

namespace offramp {

// Which source reads an --input when --source says "auto": decided by the input's name alone, so that the producer and
// its consumers choose the same. .jsonl and .ndjson: "jsonl"; .npy: "npy"; .tar: "webdataset"; none: "synthetic";
// anything else: "images".
std::string source_of_input(const std::string& source, std::string_view input);

// The same where the items are texts. .jsonl and .ndjson: "jsonl-text"; .parquet: "parquet-text"; anything else:
// "text".
std::string source_of_texts(std::string_view input);

// True for the sources whose items are pictures: "images", "jsonl", "webdataset".
bool gives_pictures(std::string_view source);
// True for those of them whose items can have columns (PictureList::columns): "jsonl", "webdataset".
bool gives_columns(std::string_view source);
// True for the sources whose items are texts with ids and columns (common/app/texts): "jsonl-text", "parquet-text".
bool gives_text_tables(std::string_view source);
// True for those, and for lines of text: "text".
bool gives_texts(std::string_view source);

}  // namespace offramp
