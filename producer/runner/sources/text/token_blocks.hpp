#pragma once

#include <atomic>
#include <chrono>
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
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/clock.hpp"

namespace offramp {

// The reasons why rows are unreadable, by row number.
using UnreadableRows = std::map<std::uint64_t, std::string>;

// Facts about rows that were made, by row number.
struct MadeRowFacts {
    UnreadableRows unreadable;
    std::set<std::uint64_t> cut;  // their texts have more tokens than a row
};

// Makes rows of tokens. Thread: one at a time; end(): any. Errors: any exception; after one it must not be used.
class RowMaker {
  public:
    virtual ~RowMaker() = default;
    // Call it once, before all other calls. Blocks: until the maker is ready, which may take as long as some thousand
    // rows.
    virtual void open() = 0;
    // Makes the `rows` from number `first` on. Blocks: until they are made.
    virtual MadeRowFacts make(std::uint64_t first, std::span<std::int32_t> rows) = 0;
    // No more rows are needed. A waiting open() or make() returns soon, with an exception.
    virtual void end() noexcept = 0;
};

// Rows of tokens by number, made a block at a time, ahead of their readers. It starts with one maker. If the makers
// were busy most of the time over many rows, their number doubles, up to `most`; if no other can be started, the
// existing ones go on. Recently made or requested blocks are kept, so that workers which go through the rows together
// find them. Owns the makers, and a thread for each. Thread: any. Blocks: until the row's block is there; the
// destructor, until makers have ended. Errors: UnreadableItem for a row that could not be read when its block was made;
// a maker's exception, for all threads that wait for, or later request, a block that is not made.
class TokenBlocks {
  public:
    using NewMaker = std::function<std::unique_ptr<RowMaker>()>;

    struct Settings {
        std::uint64_t rows = 0;
        std::size_t row_numbers = 0;
        std::size_t most = 1;                      // makers
        std::uint64_t min_rows_per_thread = 4096;  // rows
    };

    // `first` is open. Borrows the clock.
    TokenBlocks(const Settings& settings, std::unique_ptr<RowMaker> first, NewMaker another,
                const Clock& clock = kSteadyClock);
    TokenBlocks(const TokenBlocks&) = delete;
    TokenBlocks& operator=(const TokenBlocks&) = delete;
    ~TokenBlocks();

    void copy_row(std::uint64_t row, std::span<std::byte> to);
    // Rows copied and cut; a row that is copied twice counts twice.
    std::uint64_t cut_rows() const { return cut_rows_; }
    std::size_t makers() const;     // makers that work, or wait for work
    std::size_t asked_for() const;  // blocks not yet begun

    static constexpr std::uint64_t kRows = 64;   // per block: one request to a maker
    static constexpr std::uint64_t kAhead = 48;  // blocks after the last one requested
    static constexpr std::size_t kKept = 96;     // blocks

  private:
    struct Block {
        std::vector<std::int32_t> numbers;
        MadeRowFacts facts;
        bool made = false;
    };
    using Lock = std::unique_lock<std::mutex>;

    void join_in(std::size_t number) noexcept;
    RowMaker* begin_another();
    void work(RowMaker& maker, Lock lock) noexcept;
    std::optional<std::uint64_t> next_block() const;
    std::shared_ptr<Block> begin(std::uint64_t number);
    std::shared_ptr<Block> add(std::uint64_t number);
    void count(std::uint64_t rows, std::chrono::nanoseconds busy);
    void grow();
    void drop(RowMaker* maker, const std::string& problem);
    std::uint64_t blocks() const { return (settings_.rows + kRows - 1) / kRows; }

    const Settings settings_;
    const NewMaker another_;
    const Clock& clock_;

    std::atomic<std::uint64_t> cut_rows_ = 0;
    mutable std::mutex mutex_;
    std::condition_variable wanted_;  // a block is requested, or the end
    std::condition_variable made_;
    // Guarded by mutex_:
    std::map<std::uint64_t, std::shared_ptr<Block>> blocks_;
    std::deque<std::uint64_t> order_;                                         // in the order in which they were added
    std::deque<std::pair<std::uint64_t, std::shared_ptr<Block>>> asked_for_;  // requested and not begun
    std::optional<std::uint64_t> furthest_;                                   // the highest block number requested
    std::exception_ptr failure_;
    bool ending_ = false;
    std::vector<std::thread> threads_;
    std::vector<std::unique_ptr<RowMaker>> makers_;
    std::size_t there_ = 1;      // open makers
    std::size_t coming_up_ = 0;  // makers that are starting
    std::size_t most_;
    // Recent activity:
    TimePoint counted_from_;
    std::uint64_t rows_made_ = 0;
    std::chrono::nanoseconds busy_{};  // total of all makers
};

}  // namespace offramp
