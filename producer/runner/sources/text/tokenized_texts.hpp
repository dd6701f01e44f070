#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "producer/runner/sources/batch_source.hpp"
#include "producer/runner/sources/text/token_blocks.hpp"
#include "producer/runner/sources/text/tokenizer_process.hpp"

namespace offramp {

// XXH3 of a tokenizer's file. Errors: ConfigError with its path, when it cannot be read.
std::uint64_t hash_of_tokenizer(const std::string& path);

// The text of an item. Errors: UnreadableItem.
using TextOfItem = std::function<std::string(std::uint64_t)>;

// Makes rows of tokens from numbered texts, with its own tokenizer. For an unreadable text (UnreadableItem) it returns
// the reason, and the row of an empty text. It reads each text once per row, and calls `text` from its maker's thread.
// Thread, errors: RowMaker's; TokenizerProcess's; open(): Error (System) when the tokenizer's file no longer matches
// `file_hash`.
class LineTokenizer final : public RowMaker {
  public:
    LineTokenizer(TextOfItem text, const TokenizerProcess::Settings& settings, std::uint64_t file_hash);

    void open() override;
    MadeRowFacts make(std::uint64_t first, std::span<std::int32_t> rows) override;
    void end() noexcept override { process_.end_input(); }
    std::uint32_t tokens() const { return tokens_; }  // in the tokenizer's vocabulary, once it is open

  private:
    const TextOfItem text_;
    const std::string file_;
    const std::uint64_t file_hash_;
    const std::size_t row_numbers_;
    TokenizerProcess process_;
    std::uint32_t tokens_ = 0;
};

// Shared by the sources of texts: numbered texts as tokens for a sentence encoder. Thread: load() from many. Errors:
// those of TokenizerProcess; load(): also those of `text` (UnreadableItem).
class TokenizedTexts {
  public:
    // `text` is called from several threads. Opens the first tokenizer.
    TokenizedTexts(std::uint64_t items, TextOfItem text, const TokenizerProcess::Settings& settings);

    // A hash of all inputs that determine the tokens.
    std::uint64_t tokenizer_hash() const { return tokenizer_hash_; }
    std::string described() const { return described_; }  // "at most 256 tokens each of 30522"
    // Does not read the text again: the tokens, or the error, come from the first reading.
    void load(std::uint64_t item, std::span<std::byte> row) { rows_->copy_row(item, row); }
    // Loaded texts with more tokens than the model takes.
    std::vector<LeftOut> left_out() const;

  private:
    TextOfItem text_;
    std::uint64_t tokenizer_hash_ = 0;
    std::uint32_t length_;
    std::string described_;
    std::optional<TokenBlocks> rows_;
};

// The settings that a source of texts takes from its options. Errors: ConfigError: the model takes no tokens, there is
// no tokenizer, or no --input; `form`: the expected input.
TokenizerProcess::Settings tokenizer_settings(const SourceOptions& options, const std::string& source,
                                              const std::string& form);

// A source of the texts of a table, read as --source `name` (common/app/texts/listed_texts.hpp), named by their ids.
// Errors: those of open_texts() and tokenizer_settings(). Thread, blocks: BatchSource's.
std::unique_ptr<BatchSource> make_table_source(const std::string& name, const SourceOptions& options);

}  // namespace offramp
