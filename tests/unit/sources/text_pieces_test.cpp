#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "common/app/images/unreadable_item.hpp"
#include "common/base/error.hpp"
#include "producer/runner/sources/text/text_lines.hpp"
#include "producer/runner/sources/text/token_blocks.hpp"

namespace offramp {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> lines_of(const std::string& text) {
    const std::string path = ::testing::TempDir() + "text_lines_test-" + std::to_string(::getpid()) + ".txt";
    std::ofstream(path, std::ios::binary) << text;
    const TextLines lines(path);
    std::vector<std::string> found;
    for (std::uint64_t number = 0; number < lines.size(); ++number) found.emplace_back(lines.line(number));
    std::filesystem::remove(path);
    return found;
}

TEST(TextLines, AreTheTextsBetweenLineEnds) {
    EXPECT_THAT(lines_of("one\ntwo\r\n\n four "), ElementsAre("one", "two", "", " four "));
    EXPECT_THAT(lines_of("one\n"), ElementsAre("one"));
    EXPECT_THAT(lines_of("\xef\xbb\xbf"
                         "one"),
                ElementsAre("one"));
    EXPECT_THAT(lines_of(""), ElementsAre());
    EXPECT_THAT(lines_of("\n"), ElementsAre(""));
}

TEST(TextLines, OneMebibyteIsNotTooLongWithAnyLineEnd) {
    const std::string path = ::testing::TempDir() + "text_lines_test-" + std::to_string(::getpid()) + ".txt";
    const auto text_of = [&](const std::string& text) {
        std::ofstream(path, std::ios::binary) << text;
        return TextLines(path).text(0);
    };
    const std::string longest(std::size_t{1} << 20, 'x');
    for (const char* end : {"", "\n", "\r\n"}) {
        EXPECT_EQ(text_of(longest + end), longest);
        EXPECT_THROW((void)text_of(longest + "x" + end), UnreadableItem);
    }
    std::filesystem::remove(path);
}

TEST(TextLines, AreFoundAcrossBlocks) {
    std::string text;
    std::vector<std::string> wanted;
    for (std::size_t i = 0; text.size() < (std::size_t{5} << 20); ++i) {
        wanted.push_back(std::string(i % 3001, 'x') + std::to_string(i));
        text += wanted.back() + "\n";
    }
    EXPECT_EQ(lines_of(text), wanted);
}

TEST(TextLines, ReportTheUnreadableFile) {
    for (const auto& [path, code] :
         {std::pair{"/nowhere/text.txt", ErrorKind::NoInput}, std::pair{"/tmp", ErrorKind::BadInput}}) {
        try {
            TextLines lines(path);
            FAIL() << "it was opened";
        } catch (const ConfigError& refused) {
            EXPECT_EQ(refused.kind(), code);
            EXPECT_THAT(refused.what(), ::testing::HasSubstr(path));
        }
    }
}

TEST(TextLines, AMissingLineIsUnreadable) {
    const std::string path = ::testing::TempDir() + "text_lines_test-" + std::to_string(::getpid()) + ".txt";
    std::ofstream(path, std::ios::binary) << "one\ntwo\n";
    const TextLines lines(path);
    std::filesystem::resize_file(path, 5);
    EXPECT_EQ(lines.line(0), "one");
    EXPECT_THROW(lines.line(1), UnreadableItem);
    std::filesystem::remove(path);
}

TEST(TextLines, ARewrittenLineIsUnreadable) {
    const std::string path = ::testing::TempDir() + "text_lines_test-" + std::to_string(::getpid()) + ".txt";
    const auto write = [&path](const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; };
    // The last line continues after the end of a block.
    const std::string before = "\xef\xbb\xbfone\r\ntwo\n\n" + std::string((1 << 20) + 7, 'x');
    write(before);
    const TextLines lines(path);
    ASSERT_EQ(lines.size(), 4U);
    std::string after = before;
    after.replace(after.find("two"), 3, "six");
    after.back() = 'y';
    write(after);
    const auto was_changed = ::testing::ThrowsMessage<UnreadableItem>(::testing::HasSubstr("the line was changed"));
    EXPECT_EQ(lines.line(0), "one");
    EXPECT_THAT([&] { (void)lines.line(1); }, was_changed);
    EXPECT_EQ(lines.line(2), "");
    EXPECT_THAT([&] { (void)lines.line(3); }, was_changed);
    write(before + "and more\nat its end\n");
    EXPECT_EQ(lines.line(1), "two") << "as it was";
    EXPECT_EQ(lines.line(3).size(), (1U << 20U) + 7) << "lines added after the listing do not count";
    std::filesystem::remove(path);
}

// Makers of rows that contain their numbers, with hooks for tests.
struct MadeRows : ::testing::Test {
    static constexpr std::size_t kNumbers = 2;
    static constexpr std::uint64_t kRows = TokenBlocks::kRows;
    static constexpr auto kPatience = std::chrono::seconds(20);

    class Maker final : public RowMaker {
      public:
        explicit Maker(MadeRows& test) : test_(test) {}
        void open() override {
            ++test_.opened;
            if (test_.on_open) test_.on_open(*this);
        }
        MadeRowFacts make(std::uint64_t first, std::span<std::int32_t> rows) override {
            ++test_.made;
            if (test_.on_make) test_.on_make();
            for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<std::int32_t>(first * kNumbers + i);
            return {test_.unreadable, test_.cut};
        }
        void end() noexcept override { ended = true; }

        std::atomic<bool> ended = false;

      private:
        MadeRows& test_;
    };

    std::unique_ptr<TokenBlocks> blocks(std::uint64_t rows, std::size_t most = 1,
                                        std::uint64_t min_rows_per_thread = 1) {
        return std::make_unique<TokenBlocks>(
            TokenBlocks::Settings{
                .rows = rows, .row_numbers = kNumbers, .most = most, .min_rows_per_thread = min_rows_per_thread},
            std::make_unique<Maker>(*this), [this] { return std::make_unique<Maker>(*this); }, clock);
    }
    static std::vector<std::int32_t> row_of(TokenBlocks& blocks, std::uint64_t row) {
        std::vector<std::int32_t> numbers(kNumbers);
        blocks.copy_row(row, std::as_writable_bytes(std::span(numbers)));
        return numbers;
    }
    static void expect_row(TokenBlocks& blocks, std::uint64_t row) {
        const auto first = static_cast<std::int32_t>(row * kNumbers);
        EXPECT_THAT(row_of(blocks, row), ElementsAre(first, first + 1));
    }
    template <class Holds>
    static bool soon(Holds&& holds) {
        for (const auto until = std::chrono::steady_clock::now() + kPatience;
             std::chrono::steady_clock::now() < until;) {
            if (holds()) return true;
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        return false;
    }

    // A clock that advances with each reading. 0: workers are always busy.
    class Clock final : public offramp::Clock {
      public:
        TimePoint now() const override { return TimePoint(std::chrono::nanoseconds(now_ += step)); }
        std::atomic<std::int64_t> step = 0;

      private:
        mutable std::atomic<std::int64_t> now_ = 0;
    };

    Clock clock;
    std::atomic<int> opened = 0;
    std::atomic<int> made = 0;
    std::function<void(Maker&)> on_open;
    std::function<void()> on_make;
    UnreadableRows unreadable;
    std::set<std::uint64_t> cut;
};

using TokenBlocksTest = MadeRows;

TEST_F(TokenBlocksTest, GiveEveryRowToManyThreads) {
    constexpr std::uint64_t kAll = kRows * (TokenBlocks::kKept + 9) + 5;
    const auto of = blocks(kAll, 3);
    std::atomic<std::uint64_t> next = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i)
        threads.emplace_back([&] {
            for (std::uint64_t row = next++; row < kAll; row = next++) expect_row(*of, row);
        });
    for (std::thread& thread : threads) thread.join();
    constexpr int kBlocks = static_cast<int>(kAll / kRows) + 1;
    EXPECT_GE(made, kBlocks);
    EXPECT_LE(made, kBlocks + 8) << "each is computed once, unless a thread sleeps until its block is forgotten";
}

TEST_F(TokenBlocksTest, RecomputeForgottenBlocks) {
    const auto of = blocks(kRows * (TokenBlocks::kKept + 1));
    for (std::uint64_t block = 0; block <= TokenBlocks::kKept; ++block) expect_row(*of, block * kRows);
    expect_row(*of, 1);
    EXPECT_EQ(made, static_cast<int>(TokenBlocks::kKept) + 2);
}

TEST_F(TokenBlocksTest, AreComputedAheadOfTheirReaders) {
    constexpr int kBehindTheFirst = static_cast<int>(TokenBlocks::kAhead);
    const auto of = blocks(kRows * (TokenBlocks::kAhead + 20));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(made, 0) << "no reader yet";
    expect_row(*of, 3);
    EXPECT_TRUE(soon([&] { return made == 1 + kBehindTheFirst; })) << made;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(made, 1 + kBehindTheFirst) << "up to this distance";
    expect_row(*of, 2 * kRows);
    EXPECT_TRUE(soon([&] { return made == 3 + kBehindTheFirst; })) << made;
}

TEST_F(TokenBlocksTest, RequestedBlocksComeBeforeLaterOnes) {
    std::mutex mutex;
    std::condition_variable changed;
    bool go = false;
    on_make = [&] {
        std::unique_lock lock(mutex);
        if (made > 1) changed.wait_for(lock, kPatience, [&go] { return go; });
    };
    constexpr std::uint64_t kFar = 2 * TokenBlocks::kAhead;
    const auto of = blocks(kRows * (kFar + 1));
    expect_row(*of, 0);
    EXPECT_TRUE(soon([&] { return made == 2; })) << "one after the first, which does not finish";
    std::thread beside([&] {
        expect_row(*of, kFar * kRows);
        EXPECT_EQ(made, 3) << "the next after the one being computed";
    });
    EXPECT_TRUE(soon([&] { return of->asked_for() == 1; }));
    {
        const std::lock_guard lock(mutex);
        go = true;
    }
    changed.notify_all();
    beside.join();
}

TEST_F(TokenBlocksTest, AddWorkersWhileThereIsWork) {
    std::mutex mutex;
    std::condition_variable changed;
    int now = 0;
    int most = 0;
    on_make = [&] {
        std::unique_lock lock(mutex);
        most = std::max(most, ++now);
        changed.notify_all();
        // Not for long: the reader may wait for this block, and the other workers for the reader.
        if (opened == 2) changed.wait_for(lock, std::chrono::milliseconds(20), [&most] { return most >= 3; });
        --now;
    };
    const auto enough = [&] {
        const std::lock_guard lock(mutex);
        return most >= 3;
    };
    const auto of = blocks(kRows * 1'000'000, 3);
    std::uint64_t block = 0;
    EXPECT_TRUE(soon([&] { return expect_row(*of, kRows * block++), enough(); }));
    for (const std::uint64_t end = block + 100; block < end; ++block) expect_row(*of, kRows * block);
    EXPECT_EQ(of->makers(), 3U);
    EXPECT_EQ(opened, 2) << "no more than requested; the first was open already";
}

TEST_F(TokenBlocksTest, AddNoWorkersWhileSomeAreIdle) {
    clock.step = 1000;  // work is one step of three, and waiting the others
    const auto of = blocks(kRows * 60, 3);
    for (std::uint64_t block = 0; block < 60; ++block) expect_row(*of, block * kRows);
    EXPECT_EQ(opened, 0);
}

TEST_F(TokenBlocksTest, AddNoWorkersForAFewRows) {
    const auto of = blocks(kRows * 60, 3, kRows * 100);
    for (std::uint64_t block = 0; block < 60; ++block) expect_row(*of, block * kRows);
    EXPECT_EQ(opened, 0);
}

TEST_F(TokenBlocksTest, ContinueWhenNoWorkerCanBeAdded) {
    on_open = [](Maker&) { throw std::runtime_error("no memory"); };
    const auto of = blocks(kRows * 60, 3);
    expect_row(*of, 0);
    EXPECT_TRUE(soon([&] { return opened == 1; }));
    for (std::uint64_t block = 0; block < 60; ++block) expect_row(*of, block * kRows);
    EXPECT_EQ(of->makers(), 1U);
    EXPECT_EQ(opened, 1) << "it is not retried";
}

TEST_F(TokenBlocksTest, EndDespiteAStartingWorker) {
    on_open = [](Maker& maker) {
        EXPECT_TRUE(soon([&maker] { return maker.ended.load(); }));
        throw std::runtime_error("it was ended");
    };
    const auto of = blocks(kRows * 60, 3);
    expect_row(*of, 0);
    EXPECT_TRUE(soon([&] { return opened == 1; }));
}

TEST_F(TokenBlocksTest, ReportFailuresToAllReaders) {
    on_make = [] { throw std::runtime_error("no tokenizer"); };
    const auto of = blocks(2 * kRows);
    std::atomic<int> failures = 0;
    const auto ask = [&](std::uint64_t row) {
        try {
            row_of(*of, row);
        } catch (const std::runtime_error&) {
            ++failures;
        }
    };
    std::vector<std::thread> threads;
    for (std::uint64_t i = 0; i < 3; ++i) threads.emplace_back(ask, i);
    for (std::thread& thread : threads) thread.join();
    ask(kRows);
    EXPECT_EQ(failures, 4) << "later readers, too";
}

TEST_F(TokenBlocksTest, AnUnreadableRowDoesNotAffectItsNeighbours) {
    unreadable = {{kRows + 1, "the disk has gone"}};
    const auto of = blocks(2 * kRows);
    expect_row(*of, kRows);
    EXPECT_THAT([&] { row_of(*of, kRows + 1); }, ::testing::ThrowsMessage<UnreadableItem>("the disk has gone"));
    expect_row(*of, kRows + 2);
}

TEST_F(TokenBlocksTest, KeepBlocksComputedBeforeAFailure) {
    on_make = [this] {
        if (made > 1) throw std::runtime_error("no tokenizer");
    };
    const auto of = blocks(3 * kRows);
    expect_row(*of, 0);
    EXPECT_THROW(row_of(*of, kRows), std::runtime_error) << "computed after the first, by any thread";
    expect_row(*of, 1);
}

}  // namespace
}  // namespace offramp
