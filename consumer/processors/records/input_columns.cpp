#include "consumer/processors/records/input_columns.hpp"

#include "common/app/images/unreadable_item.hpp"
#include "common/app/settings/sections.hpp"
#include "common/app/texts/listed_texts.hpp"
#include "common/app/texts/text_table.hpp"
#include "common/base/error.hpp"
#include "common/shm/run_files.hpp"
#include "consumer/sinks/files/output_name.hpp"

namespace offramp {

InputColumns::InputColumns(const InputSettings& config, std::string_view processor, const std::string& run_dir) {
    if (!gives_text_tables(config.source)) {
        pictures_.emplace(config, processor, run_dir);
        return;
    }
    texts_ = open_texts(config);
    if (!run_dir.empty()) require_listed_rows(run_dir + "/" + run_files::kListedRows, *texts_);
    in_chunks_ = config.chunk_tokens > 0;
    texts_by_key_.reserve(texts_->size());
    for (std::uint64_t number = 0; number < texts_->size(); ++number)
        texts_by_key_.add(texts_->key(number), number, [this](auto other) { return texts_->key(other); });
}

std::optional<std::uint64_t> InputColumns::find(std::string_view key) const {
    if (pictures_) return pictures_->find(key);
    if (in_chunks_) {
        // The name of a skipped row, or of another shard's row, is its number.
        const auto chunk = chunk_of_key(key);
        if (!chunk) return std::nullopt;
        key = chunk->text;
    }
    return texts_by_key_.find(key, [this](auto number) { return texts_->key(number); });
}

BesideText InputColumns::at(std::uint64_t number) const {
    if (!pictures_ && !in_chunks_) return texts_->beside(number);
    if (!pictures_) {
        if (!last_ || last_->first != number) last_.emplace(number, texts_->beside(number));
        return last_->second;
    }
    return {.id = {}, .columns = pictures_->pictures().columns(number)};
}

std::string InputColumns::origin(std::uint64_t number) const {
    return pictures_ ? pictures_->pictures().origin(number) : texts_->origin(number);
}

BesideText InputColumns::of(std::string_view key) const {
    constexpr const char* kLeave = "Do not change the input during a run";
    const auto found = find(key);
    if (!found && texts_)
        throw Error(ErrorKind::NoInput,
                    texts_->description() + ": no text has the id of the sample '" + escaped(key) + "'", kLeave);
    const std::uint64_t number = found ? *found : pictures_->number_of(key);
    try {
        return at(number);
    } catch (const UnreadableItem& problem) {
        throw Error(ErrorKind::NoInput,
                    "the columns of the sample '" + escaped(key) + "', " + origin(number) +
                        ", cannot be read any more: " + problem.what(),
                    kLeave);
    }
}

BesideText InputColumns::of_skipped(std::string_view key) const {
    if (const auto number = find(key)) try {
            return at(*number);
        } catch (const UnreadableItem&) {
        }
    return {.id = {}, .columns = "{}"};
}

std::optional<InputColumns> columns_of_input(const InputSettings& config, std::string_view processor,
                                             const std::string& run_dir) {
    const std::string source = source_of_input(config.source, config.input);
    if (!gives_columns(source) && !gives_text_tables(source)) return std::nullopt;
    return std::optional<InputColumns>(std::in_place, config, processor, run_dir);
}

}  // namespace offramp
