#include "common/app/settings/source_of_input.hpp"

#include <array>
#include <utility>

namespace offramp {

std::string source_of_input(const std::string& source, std::string_view input) {
    constexpr std::array<std::pair<std::string_view, const char*>, 4> kSources{
        {{".jsonl", "jsonl"}, {".ndjson", "jsonl"}, {".npy", "npy"}, {".tar", "webdataset"}}};
    if (source != "auto") return source;
    if (input.empty()) return "synthetic";
    for (const auto& [ending, name] : kSources)
        if (input.ends_with(ending)) return name;
    return "images";
}

std::string source_of_texts(std::string_view input) {
    if (input.ends_with(".jsonl") || input.ends_with(".ndjson")) return "jsonl-text";
    return input.ends_with(".parquet") ? "parquet-text" : "text";
}

bool gives_columns(std::string_view source) { return source == "jsonl" || source == "webdataset"; }

bool gives_text_tables(std::string_view source) { return source == "jsonl-text" || source == "parquet-text"; }

bool gives_texts(std::string_view source) { return source == "text" || gives_text_tables(source); }

bool gives_pictures(std::string_view source) { return source == "images" || gives_columns(source); }

}  // namespace offramp
