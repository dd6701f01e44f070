#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "producer/runner/sources/text/token_blocks.hpp"
#include "producer/runner/sources/text/tokenizer_process.hpp"

namespace offramp {

// XXH3 of a tokenizer's file. Errors: ConfigError with its path, when it cannot be read.
std::uint64_t hash_of_tokenizer(const std::string& path);

// The text of an item. Errors: UnreadableItem.
using TextOfItem = std::function<std::string(std::uint64_t)>;

// Rows of tokens of numbered texts, from its own tokenizer. Unreadable texts (UnreadableItem) are returned with their
// reasons, and their rows are those of an empty text. Each text is read once per row. `text` is called from its maker's
// thread. Thread, errors: RowMaker's; TokenizerProcess's; open(): Error (System) when the tokenizer's file no longer
// matches `file_hash`.
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

}  // namespace offramp
