#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

namespace offramp {

// Rows of tokens by number, made a block at a time. Who needs a row first has its whole block made; others who need it make blocks behind it
// meanwhile, which are needed next. The blocks that were asked for last are kept, so that workers which go through the rows together find them.
// Thread: any. Blocks: until the row's block is there. Errors: what making the block threw, for everyone who waits for it.
class TokenBlocks {
  public:
    // Makes rows `first` to `first + rows.size() / row_numbers`. Called by one thread for one block, by several for several.
    using Make = std::function<void(std::uint64_t first, std::span<std::int32_t> rows)>;

    // How many calls of it are worth making side by side by now. Does not wait.
    using AtOnce = std::function<std::size_t()>;

    TokenBlocks(std::uint64_t rows, std::size_t row_numbers, Make make, AtOnce at_once);

    void copy_row(std::uint64_t row, std::span<std::byte> to);

    static constexpr std::uint64_t kRows = 64;      // of a block: what a tokenizer is asked for at once
    static constexpr std::uint64_t kAhead = 32;     // blocks behind one that is waited for, at most
    static constexpr std::size_t kKept = 64;        // blocks

  private:
    struct Block {
        std::vector<std::int32_t> numbers;
        bool made = false;
        std::exception_ptr failure;
    };

    std::shared_ptr<Block> block(std::uint64_t number);
    std::shared_ptr<Block> make(std::uint64_t number, std::unique_lock<std::mutex>& lock);
    std::optional<std::uint64_t> worth_making_behind(std::uint64_t number) const;
    void forget_oldest();

    std::uint64_t rows_;
    std::size_t row_numbers_;
    Make make_;
    AtOnce at_once_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::map<std::uint64_t, std::shared_ptr<Block>> blocks_;    // guarded by mutex_, as is what is in them until it is made
    std::deque<std::uint64_t> order_;                           // of being asked for first
    std::size_t in_the_making_ = 0;
};

}  // namespace offramp
