#include "producer/runner/sources/text/line_tokenizer.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <utility>

#include "common/app/images/unreadable_item.hpp"
#include "common/base/error.hpp"
#include "common/base/regular_file.hpp"

namespace offramp {

std::uint64_t hash_of_tokenizer(const std::string& path) try {
    const RegularFile file(path);
    std::vector<std::byte> bytes(file.size());
    return XXH3_64bits(bytes.data(), file.read_at(0, bytes));
} catch (const Error& reason) {
    throw ConfigError("--tokenizer '" + path + "' " + reason.what(),
                      "Give the tokenizer.json that the model was trained with", reason.kind());
}

LineTokenizer::LineTokenizer(TextOfItem text, const TokenizerProcess::Settings& settings, std::uint64_t file_hash)
    : text_(std::move(text)),
      file_(settings.tokenizer),
      file_hash_(file_hash),
      row_numbers_(2 * std::size_t{settings.length}),
      process_(settings) {}

void LineTokenizer::open() {
    tokens_ = process_.open();
    if (hash_of_tokenizer(file_) != file_hash_)
        throw Error(ErrorKind::System, "'" + file_ + "' was replaced by another tokenizer after the run had begun");
}

MadeRowFacts LineTokenizer::make(std::uint64_t first, std::span<std::int32_t> rows) {
    std::vector<std::string> lines(rows.size() / row_numbers_);
    MadeRowFacts facts;
    for (std::size_t i = 0; i < lines.size(); ++i) {
        try {
            lines[i] = text_(first + i);
        } catch (const UnreadableItem& problem) {
            facts.unreadable.emplace(first + i, problem.what());
        }
    }
    const auto was_cut = process_.encode(std::vector<std::string_view>(lines.begin(), lines.end()), rows);
    for (std::size_t i = 0; i < was_cut.size(); ++i)
        if (was_cut[i] != 0) facts.cut.insert(first + i);
    return facts;
}

}  // namespace offramp
