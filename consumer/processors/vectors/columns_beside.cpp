#include "consumer/processors/vectors/columns_beside.hpp"

#include "common/app/settings/source_of_input.hpp"

namespace offramp {
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
