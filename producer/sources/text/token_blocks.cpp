#include "producer/sources/text/token_blocks.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/base/error.hpp"

namespace offramp {

TokenBlocks::TokenBlocks(std::uint64_t rows, std::size_t row_numbers, Make make, AtOnce at_once)
    : rows_(rows), row_numbers_(row_numbers), make_(std::move(make)), at_once_(std::move(at_once)) {}

void TokenBlocks::copy_row(std::uint64_t row, std::span<std::byte> to) {
    expect(row < rows_ && to.size() == row_numbers_ * sizeof(std::int32_t), "a row of this text, and place for it");
    const std::shared_ptr<Block> from = block(row / kRows);
    std::memcpy(to.data(), from->numbers.data() + row % kRows * row_numbers_, to.size());
}

std::shared_ptr<TokenBlocks::Block> TokenBlocks::block(std::uint64_t number) {
    std::unique_lock lock(mutex_);
    const auto found = blocks_.find(number);
    const std::shared_ptr<Block> block = found != blocks_.end() ? found->second : make(number, lock);
    while (!block->made && !block->failure) {
        if (const auto behind = worth_making_behind(number))
            make(*behind, lock);
        else
            changed_.wait(lock);
    }
    if (block->failure) std::rethrow_exception(block->failure);
    return block;
}

// The lock is not held meanwhile. A failure is the block's.
std::shared_ptr<TokenBlocks::Block> TokenBlocks::make(std::uint64_t number, std::unique_lock<std::mutex>& lock) {
    const auto block = std::make_shared<Block>();
    blocks_.emplace(number, block);
    order_.push_back(number);
    forget_oldest();
    ++in_the_making_;
    lock.unlock();
    const std::uint64_t first = number * kRows;
    std::vector<std::int32_t> numbers;
    std::exception_ptr failure;
    try {
        numbers.resize(std::min(kRows, rows_ - first) * row_numbers_);
        make_(first, numbers);
    } catch (...) {
        failure = std::current_exception();
    }
    lock.lock();
    --in_the_making_;
    block->numbers = std::move(numbers);
    block->made = !failure;
    block->failure = failure;
    changed_.notify_all();
    return block;
}

std::optional<std::uint64_t> TokenBlocks::worth_making_behind(std::uint64_t number) const {
    if (in_the_making_ >= at_once_()) return std::nullopt;
    const std::uint64_t blocks = (rows_ + kRows - 1) / kRows;
    for (std::uint64_t behind = number + 1; behind < std::min(blocks, number + 1 + kAhead); ++behind)
        if (!blocks_.contains(behind)) return behind;
    return std::nullopt;
}

void TokenBlocks::forget_oldest() {
    if (order_.size() <= kKept) return;
    blocks_.erase(order_.front());      // who waits for it or reads it has it still
    order_.pop_front();
}

}  // namespace offramp
