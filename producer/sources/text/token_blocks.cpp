#include "producer/sources/text/token_blocks.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/base/error.hpp"

namespace offramp {

TokenBlocks::TokenBlocks(std::uint64_t rows, std::size_t row_numbers, Make make) : rows_(rows), row_numbers_(row_numbers), make_(std::move(make)) {}

void TokenBlocks::copy_row(std::uint64_t row, std::span<std::byte> to) {
    expect(row < rows_ && to.size() == row_numbers_ * sizeof(std::int32_t), "a row of this text, and place for it");
    const std::shared_ptr<Block> from = block(row / kRows);
    std::memcpy(to.data(), from->numbers.data() + row % kRows * row_numbers_, to.size());
}

std::shared_ptr<TokenBlocks::Block> TokenBlocks::block(std::uint64_t number) {
    std::unique_lock lock(mutex_);
    if (const auto found = blocks_.find(number); found != blocks_.end()) {
        const std::shared_ptr<Block> block = found->second;
        changed_.wait(lock, [&block] { return block->made || block->failure; });
        if (block->failure) std::rethrow_exception(block->failure);
        return block;
    }
    const auto block = std::make_shared<Block>();
    blocks_.emplace(number, block);
    order_.push_back(number);
    forget_oldest();
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
    block->numbers = std::move(numbers);
    block->made = !failure;
    block->failure = failure;
    changed_.notify_all();
    if (failure) std::rethrow_exception(failure);
    return block;
}

void TokenBlocks::forget_oldest() {
    if (order_.size() <= kKept) return;
    blocks_.erase(order_.front());      // who waits for it or reads it has it still
    order_.pop_front();
}

}  // namespace offramp
