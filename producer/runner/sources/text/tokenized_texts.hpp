#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "producer/runner/sources/batch_source.hpp"
#include "producer/runner/sources/text/line_tokenizer.hpp"
#include "producer/runner/sources/text/token_blocks.hpp"

namespace offramp {

// Shared by the sources of texts: numbered texts as tokens for a sentence encoder. Thread: load() from many. Errors:
// those of TokenizerProcess; load(): also those of `text` (UnreadableItem).
class TokenizedTexts {
  public:
    // `text` is called from several threads. Opens the first tokenizer.
    TokenizedTexts(std::uint64_t items, TextOfItem text, const TokenizerProcess::Settings& settings);

    // A hash of everything that determines the tokens.
    std::uint64_t tokenizer_hash() const { return tokenizer_hash_; }
    std::string described() const { return described_; }  // "at most 256 tokens each of 30522"
    // Does not read the text again: its tokens, or its error, are those of the first reading.
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

}  // namespace offramp
