#include "producer/runner/sources/text/token_blocks.hpp"

#include <algorithm>
#include <cstring>
#include <system_error>

#include "common/app/images/unreadable_item.hpp"
#include "common/base/error.hpp"
#include "common/base/log.hpp"
#include "common/base/trace.hpp"

namespace offramp {

TokenBlocks::TokenBlocks(const Settings& settings, std::unique_ptr<RowMaker> first, NewMaker another,
                         const Clock& clock)
    : settings_(settings),
      another_(std::move(another)),
      clock_(clock),
      most_(std::max<std::size_t>(settings.most, 1)),
      counted_from_(clock.now()) {
    expect(settings_.row_numbers > 0, "a row has tokens");
    makers_.push_back(std::move(first));
    threads_.emplace_back([this, maker = makers_.front().get()] {
        name_this_thread("tokens-0");
        work(*maker, Lock(mutex_));
    });
}

TokenBlocks::~TokenBlocks() {
    std::vector<std::thread> threads;
    {
        const std::lock_guard lock(mutex_);
        ending_ = true;
        for (const auto& maker : makers_) maker->end();
        threads = std::move(threads_);
    }
    wanted_.notify_all();
    for (std::thread& thread : threads) thread.join();
}

void TokenBlocks::copy_row(std::uint64_t row, std::span<std::byte> to) {
    expect(row < settings_.rows && to.size() == settings_.row_numbers * sizeof(std::int32_t),
           "a row of this text, and place for it");
    const std::uint64_t number = row / kRows;
    Lock lock(mutex_);
    const auto found = blocks_.find(number);
    const bool is_new = found == blocks_.end();
    const std::shared_ptr<Block> block = is_new ? add(number) : found->second;
    if (is_new) asked_for_.emplace_back(number, block);
    if (is_new || !furthest_ || number > *furthest_) {
        furthest_ = std::max(furthest_.value_or(number), number);
        wanted_.notify_all();
    }
    made_.wait(lock, [&] { return block->made || failure_; });
    if (!block->made) std::rethrow_exception(failure_);
    lock.unlock();
    const MadeRowFacts& facts = block->facts;
    if (const auto why = facts.unreadable.find(row); why != facts.unreadable.end()) throw UnreadableItem(why->second);
    if (facts.cut.contains(row)) ++cut_rows_;
    std::memcpy(to.data(), block->numbers.data() + row % kRows * settings_.row_numbers, to.size());
}

std::size_t TokenBlocks::makers() const {
    const std::lock_guard lock(mutex_);
    return there_;
}

std::size_t TokenBlocks::asked_for() const {
    const std::lock_guard lock(mutex_);
    return asked_for_.size();
}

// Runs on the thread of every maker except the first.
void TokenBlocks::join_in(std::size_t number) noexcept {
    name_this_thread(("tokens-" + std::to_string(number)).c_str());
    RowMaker* maker = nullptr;
    try {
        maker = begin_another();
        if (maker == nullptr) return;
        maker->open();
    } catch (const std::exception& reason) {
        drop(maker, reason.what());
        return;
    }
    Lock lock(mutex_);
    --coming_up_;
    ++there_;
    work(*maker, std::move(lock));
}

// Returns null when the work is over.
RowMaker* TokenBlocks::begin_another() {
    std::unique_ptr<RowMaker> maker = another_();
    const std::lock_guard lock(mutex_);
    if (ending_) return nullptr;
    makers_.push_back(std::move(maker));
    return makers_.back().get();
}

// Call if the maker failed to start.
void TokenBlocks::drop(RowMaker* maker, const std::string& problem) {
    std::unique_ptr<RowMaker> dropped;
    Lock lock(mutex_);
    --coming_up_;
    most_ = there_;
    if (ending_) return;
    const auto place = std::ranges::find(makers_, maker, &std::unique_ptr<RowMaker>::get);
    if (place != makers_.end()) {
        dropped = std::move(*place);
        makers_.erase(place);
    }
    const std::size_t left = there_;
    lock.unlock();
    spdlog::warn("no more tokenizers can be started, {} continue: {}", left, problem);
}

// Works until the end, or the first failure.
void TokenBlocks::work(RowMaker& maker, Lock lock) noexcept {
    while (true) {
        wanted_.wait(lock, [this] { return ending_ || failure_ || next_block(); });
        if (ending_ || failure_) return;
        const std::uint64_t number = *next_block();
        const std::shared_ptr<Block> block = begin(number);
        lock.unlock();
        const std::uint64_t first = number * kRows;
        const std::uint64_t rows = std::min(kRows, settings_.rows - first);
        const TimePoint began = clock_.now();
        std::vector<std::int32_t> numbers;
        MadeRowFacts facts;
        std::exception_ptr failure;
        try {
            numbers.resize(rows * settings_.row_numbers);
            facts = maker.make(first, numbers);
        } catch (...) {
            failure = std::current_exception();
        }
        const auto busy = clock_.now() - began;
        lock.lock();
        if (failure) {
            failure_ = failure_ ? failure_ : failure;
            wanted_.notify_all();
        } else {
            block->numbers = std::move(numbers);
            block->facts = std::move(facts);
            block->made = true;
            count(rows, busy);
        }
        made_.notify_all();
    }
}

std::optional<std::uint64_t> TokenBlocks::next_block() const {
    if (!asked_for_.empty()) return asked_for_.front().first;
    if (!furthest_) return std::nullopt;
    for (std::uint64_t ahead = *furthest_ + 1; ahead < std::min(blocks(), *furthest_ + 1 + kAhead); ++ahead)
        if (!blocks_.contains(ahead)) return ahead;
    return std::nullopt;
}

// Begins a block named by next_block().
std::shared_ptr<TokenBlocks::Block> TokenBlocks::begin(std::uint64_t number) {
    if (asked_for_.empty()) return add(number);
    std::shared_ptr<Block> block = std::move(asked_for_.front().second);
    asked_for_.pop_front();
    return block;
}

std::shared_ptr<TokenBlocks::Block> TokenBlocks::add(std::uint64_t number) {
    auto block = std::make_shared<Block>();
    blocks_.insert_or_assign(number, block);
    order_.push_back(number);
    if (order_.size() > kKept) {
        blocks_.erase(order_.front());  // waiting, making or reading threads keep a reference
        order_.pop_front();
    }
    return block;
}

void TokenBlocks::count(std::uint64_t rows, std::chrono::nanoseconds busy) {
    rows_made_ += rows;
    busy_ += busy;
    if (rows_made_ < settings_.min_rows_per_thread || coming_up_ > 0) return;
    const std::chrono::nanoseconds all = (clock_.now() - counted_from_) * static_cast<std::int64_t>(there_);
    if (busy_ >= all / 4 * 3) grow();
    counted_from_ = clock_.now();
    rows_made_ = 0;
    busy_ = {};
}

void TokenBlocks::grow() {
    if (ending_) return;
    for (std::size_t makers = there_; makers < std::min(most_, 2 * there_); ++makers) {
        try {
            threads_.emplace_back([this, makers] { join_in(makers); });
            ++coming_up_;
        } catch (const std::system_error&) {
            most_ = there_;  // the machine cannot start its thread
        }
    }
}

}  // namespace offramp
