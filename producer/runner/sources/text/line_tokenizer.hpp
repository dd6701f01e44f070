#pragma once

#include "producer/runner/sources/text/text_lines.hpp"
#include "producer/runner/sources/text/token_blocks.hpp"
#include "producer/runner/sources/text/tokenizer_process.hpp"

namespace offramp {

// XXH3 of a tokenizer's file. Errors: ConfigError with its path, when it cannot be read.
std::uint64_t hash_of_tokenizer(const std::string& path);

// Rows of tokens of a text file's lines, by a tokenizer of its own. Lines that are no text have rows of nothing: nobody
// asks for them. Borrows the lines. Thread, errors: RowMaker's; TokenizerProcess's; open(): Error (System) when the
// tokenizer's file is not that of `file_hash` any more.
class LineTokenizer final : public RowMaker {
  public:
    LineTokenizer(const TextLines& lines, const TokenizerProcess::Settings& settings, std::uint64_t file_hash);

    void open() override;
    void make(std::uint64_t first, std::span<std::int32_t> rows) override;
    void end() noexcept override { process_.end_input(); }
    std::uint32_t tokens() const { return tokens_; }  // that the tokenizer knows, once it is open

  private:
    const TextLines& lines_;
    const std::string file_;
    const std::uint64_t file_hash_;
    const std::size_t row_numbers_;
    TokenizerProcess process_;
    std::uint32_t tokens_ = 0;
};

}  // namespace offramp
