#include "consumer/processors/vectors/columns_beside.hpp"

#include "common/settings/source_of_input.hpp"

namespace offramp {
namespace {

// Every program reads it from here: common/settings/declared_setting.hpp.
[[maybe_unused]] constexpr std::string_view kColumnsBesideVectors = R"settings(
[[setting]]
flag = "vector-columns"
advanced = true
kind = "word"
words = "all, none"
preset = "all"
changes = "results"
reads-texts = "all"
help = "Embeddings of a table of texts (jsonl-text, parquet-text): its ids and further columns stand beside the vectors. none: they do not, and consumers do not go through the input"
)settings";

}  // namespace

ColumnsBeside::ColumnsBeside(const ProcessorOptions& options, std::string_view processor)
    : chunks_(options.input.chunk_tokens > 0) {
    if (gives_text_tables(options.input.source) && options.settings.text("vector-columns") != "none")
        columns_.emplace(options.input, processor, options.run_dir);
}

std::vector<std::string> ColumnsBeside::names() const {
    std::vector<std::string> names;
    if (columns()) names.insert(names.end(), {"id", "columns"});
    if (chunks()) names.insert(names.end(), {"chunk", "start_char", "end_char"});
    return names;
}

VectorOrigin ColumnsBeside::of(std::string_view key) const {
    VectorOrigin origin{.key = key};
    if (columns_) origin.beside = columns_->of(key);
    if (!chunks_) return origin;
    origin.chunk = chunk_named(key);
    origin.key = origin.chunk.text;
    return origin;
}

}  // namespace offramp
