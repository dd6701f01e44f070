#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "producer/runner/sources/batch_source.hpp"
#include "producer/runner/sources/text/line_tokenizer.hpp"
#include "producer/runner/sources/text/token_blocks.hpp"

namespace offramp {

// What the sources of texts share: numbered texts as the tokens that a sentence encoder takes. Thread: load() from
// many. Errors: those of TokenizerProcess; load(): also those of `text` (UnreadableItem).
class TokenizedTexts {
  public:
    // `text` is called from several threads. The first tokenizer is opened.
    TokenizedTexts(std::uint64_t items, TextOfItem text, const TokenizerProcess::Settings& settings);

    // Of all that texts become tokens by.
    std::uint64_t tokenizer_hash() const { return tokenizer_hash_; }
    std::string described() const { return described_; }  // "at most 256 tokens each of 30522"
    // The text is not read again: it is taken, or refused, as it was read when its tokens were made.
    void load(std::uint64_t item, std::span<std::byte> row) { rows_->copy_row(item, row); }
    // The texts that were loaded and have more tokens than the model takes.
    std::vector<LeftOut> left_out() const;

  private:
    TextOfItem text_;
    std::uint64_t tokenizer_hash_ = 0;
    std::uint32_t length_;
    std::string described_;
    std::optional<TokenBlocks> rows_;
};

// What a source of texts needs of its options. Errors: ConfigError: the model takes no tokens, there is no tokenizer,
// or no --input; `form`: what to give there.
TokenizerProcess::Settings tokenizer_settings(const SourceOptions& options, const std::string& source,
                                              const std::string& form);

}  // namespace offramp
