#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

#include "producer/sources/text/tokenizer_process.hpp"

namespace offramp {

// As many tokenizers as there is work for: one at the start, and one more for every so many texts, since the start of another takes as
// long as some thousand texts do; when it fails, those that are there go on. Each works on one core: the library's own threads, all in one process, get in one another's way.
// Owns the processes. Thread: any. Blocks: until one is free, and the answer is there.
// Errors: TokenizerProcess's; the constructor says what is wrong with the tokenizer's file.
class TokenizerProcesses {
  public:
    static constexpr std::uint64_t kTextsEach = 4096;

    explicit TokenizerProcesses(TokenizerProcess::Settings settings, std::uint64_t texts_each = kTextsEach);
    TokenizerProcesses(const TokenizerProcesses&) = delete;
    TokenizerProcesses& operator=(const TokenizerProcesses&) = delete;
    ~TokenizerProcesses();

    std::uint32_t tokens() const { return tokens_; }
    // How many calls of encode() do not wait for one another by now.
    std::size_t at_once() const;
    // As TokenizerProcess::encode().
    void encode(std::span<const std::string_view> texts, std::span<std::int32_t> rows);

  private:
    std::unique_ptr<TokenizerProcess> take();
    std::unique_ptr<TokenizerProcess> start_another();
    void put_back(std::unique_ptr<TokenizerProcess> process);
    std::size_t wanted() const { return std::min<std::uint64_t>(most_, 1 + encoded_ / texts_each_); }

    const TokenizerProcess::Settings settings_;
    const std::uint64_t texts_each_;
    std::uint32_t tokens_ = 0;
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    // Guarded by mutex_:
    std::vector<std::unique_ptr<TokenizerProcess>> idle_;
    std::size_t taken_ = 0;
    std::size_t most_ = std::numeric_limits<std::size_t>::max();    // fewer when no other can be started
    std::uint64_t encoded_ = 0;                                     // texts
};

}  // namespace offramp
