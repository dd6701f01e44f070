#pragma once

#include <string>
#include <string_view>

namespace offramp {

// The source that reads an --input if --source is "auto". Depends only on the input's name, so that producer and
// consumers choose the same source. .jsonl and .ndjson: "jsonl"; .npy: "npy"; .tar: "webdataset"; none: "synthetic";
// anything else: "images".
std::string source_of_input(const std::string& source, std::string_view input);

// The same for texts. .jsonl and .ndjson: "jsonl-text"; .parquet: "parquet-text"; anything else: "text".
std::string source_of_texts(std::string_view input);

// True for the sources whose items are pictures: "images", "jsonl", "webdataset".
bool gives_pictures(std::string_view source);
// True for sources of pictures that can have columns (PictureList::columns): "jsonl", "webdataset".
bool gives_columns(std::string_view source);
// True for the sources whose items are texts with ids and columns (common/app/texts): "jsonl-text", "parquet-text".
bool gives_text_tables(std::string_view source);
// True for these, and for lines of text: "text".
bool gives_texts(std::string_view source);

}  // namespace offramp
