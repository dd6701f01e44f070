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
#include <mutex>
#include <stdexcept>
#include <thread>

#include "common/base/error.hpp"
#include "common/images/unreadable_item.hpp"
#include "producer/sources/text/text_lines.hpp"
#include "producer/sources/text/token_blocks.hpp"

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

TEST(TextLines, AreWhatStandsBetweenTheirEnds) {
    EXPECT_THAT(lines_of("one\ntwo\r\n\n four "), ElementsAre("one", "two", "", " four "));
    EXPECT_THAT(lines_of("one\n"), ElementsAre("one"));
    EXPECT_THAT(lines_of("\xef\xbb\xbf" "one"), ElementsAre("one"));
    EXPECT_THAT(lines_of(""), ElementsAre());
    EXPECT_THAT(lines_of("\n"), ElementsAre(""));
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

TEST(TextLines, SayWhichFileCannotBeRead) {
    for (const auto& [path, code] : {std::pair{"/nowhere/text.txt", ExitCode::NoInput}, std::pair{"/tmp", ExitCode::BadInput}}) {
        try {
            TextLines lines(path);
            FAIL() << "it was opened";
        } catch (const ConfigError& refused) {
            EXPECT_EQ(refused.exit_code(), code);
            EXPECT_THAT(refused.what(), ::testing::HasSubstr(path));
        }
    }
}

TEST(TextLines, ALineThatIsGoneIsNoneToRead) {
    const std::string path = ::testing::TempDir() + "text_lines_test-" + std::to_string(::getpid()) + ".txt";
    std::ofstream(path, std::ios::binary) << "one\ntwo\n";
    const TextLines lines(path);
    std::filesystem::resize_file(path, 5);
    EXPECT_EQ(lines.line(0), "one");
    EXPECT_THROW(lines.line(1), UnreadableItem);
    std::filesystem::remove(path);
}

constexpr std::size_t kNumbers = 2;

std::vector<std::int32_t> row_of(TokenBlocks& blocks, std::uint64_t row) {
    std::vector<std::int32_t> numbers(kNumbers);
    blocks.copy_row(row, std::as_writable_bytes(std::span(numbers)));
    return numbers;
}

std::size_t one_at_once() { return 1; }

void number_rows(std::uint64_t first, std::span<std::int32_t> rows) {
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<std::int32_t>(first * kNumbers + i);
}

TEST(TokenBlocks, GiveEveryRowOfManyThreads) {
    constexpr std::uint64_t kRows = TokenBlocks::kRows * (TokenBlocks::kKept + 9) + 5;
    std::atomic<int> made = 0;
    TokenBlocks blocks(kRows, kNumbers, [&made](std::uint64_t first, std::span<std::int32_t> rows) {
        EXPECT_EQ(rows.size() / kNumbers, std::min(TokenBlocks::kRows, kRows - first));
        ++made;
        number_rows(first, rows);
    }, [] { return std::size_t{3}; });
    std::atomic<std::uint64_t> next = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i)
        threads.emplace_back([&] {
            for (std::uint64_t row = next++; row < kRows; row = next++) {
                const auto first = static_cast<std::int32_t>(row * kNumbers);
                EXPECT_THAT(row_of(blocks, row), ElementsAre(first, first + 1));
            }
        });
    for (std::thread& thread : threads) thread.join();
    constexpr int kBlocks = static_cast<int>(kRows / TokenBlocks::kRows) + 1;
    EXPECT_GE(made, kBlocks);
    EXPECT_LE(made, kBlocks + 8) << "rows that are asked for together are made together, but for a thread that sleeps until its block is forgotten";
}

TEST(TokenBlocks, MakeWhatTheyForgotAgain) {
    int made = 0;
    TokenBlocks blocks(TokenBlocks::kRows * (TokenBlocks::kKept + 1), kNumbers, [&made](std::uint64_t first, std::span<std::int32_t> rows) {
        ++made;
        number_rows(first, rows);
    }, one_at_once);
    for (std::uint64_t block = 0; block <= TokenBlocks::kKept; ++block) row_of(blocks, block * TokenBlocks::kRows);
    EXPECT_THAT(row_of(blocks, 1), ElementsAre(2, 3));
    EXPECT_EQ(made, static_cast<int>(TokenBlocks::kKept) + 2);
}

// Three readers of the first block; the first block is there once `together` are in the making.
void read_first_block(std::size_t at_once, int together, const std::function<void(int most)>& check) {
    std::mutex mutex;
    std::condition_variable changed;
    int begun = 0;
    int now = 0;
    int most = 0;
    TokenBlocks blocks(TokenBlocks::kRows * 40, kNumbers, [&](std::uint64_t first, std::span<std::int32_t> rows) {
        std::unique_lock lock(mutex);
        ++begun;
        most = std::max(most, ++now);
        changed.notify_all();
        changed.wait_for(lock, std::chrono::seconds(20), [&] { return begun >= together; });
        --now;
        number_rows(first, rows);
    }, [at_once] { return at_once; });
    std::vector<std::thread> threads;
    for (std::uint64_t row = 0; row < 3; ++row) threads.emplace_back([&blocks, row] { row_of(blocks, row); });
    for (std::thread& thread : threads) thread.join();
    check(most);
}

TEST(TokenBlocks, WhoWaitsMakesWhatIsNeededNext) {
    read_first_block(3, 3, [](int most) { EXPECT_EQ(most, 3); });
}

TEST(TokenBlocks, NoMoreAreMadeAtOnceThanIsWorthIt) {
    read_first_block(2, 2, [](int most) { EXPECT_EQ(most, 2); });
    read_first_block(1, 1, [](int most) { EXPECT_EQ(most, 1); });
}

TEST(TokenBlocks, TellEveryoneWhoWaitsWhatWentWrong) {
    TokenBlocks blocks(TokenBlocks::kRows, kNumbers, [](std::uint64_t, std::span<std::int32_t>) { throw std::runtime_error("no tokenizer"); }, one_at_once);
    std::atomic<int> told = 0;
    std::vector<std::thread> threads;
    for (std::uint64_t i = 0; i < 3; ++i)
        threads.emplace_back([&blocks, &told, i] {
            try {
                row_of(blocks, i);
            } catch (const std::runtime_error&) {
                ++told;
            }
        });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(told, 3);
}

}  // namespace
}  // namespace offramp
