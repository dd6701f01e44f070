#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "common/app/images/unreadable_item.hpp"
#include "common/base/error.hpp"
#include "common/base/unique_fd.hpp"
#include "producer/runner/sources/text/text_lines.hpp"
#include "producer/runner/sources/text/tokenized_texts.hpp"
#include "producer/runner/sources/text/tokenizer_process.hpp"
#include "tests/support/error_of.hpp"

namespace offramp {
namespace {

using ::testing::HasSubstr;

// Programs in the tokenizer's place that report facts about themselves as the number of tokens.
class TokenizerStandIn : public ::testing::Test {
  protected:
    TokenizerProcess::Settings program(const std::string& text) {
        std::ofstream(path_) << "import os, struct, sys, time\n"
                                "def reply(kind, payload):\n"
                                "    os.write(1, struct.pack('<II', kind, len(payload)) + payload)\n"
                             << text;
        return {.python = OFFRAMP_TEST_PYTHON, .server = path_, .tokenizer = "none", .length = 3};
    }
    void TearDown() override { std::filesystem::remove(path_); }

    std::string error_of_encoding(TokenizerProcess& tokenizer) {
        const std::array<std::string_view, 1> texts{"text"};
        std::vector<std::int32_t> rows(6);
        return test::error_of([&] { tokenizer.encode(texts, rows); }, ErrorKind::System);
    }

    std::string path_ = ::testing::TempDir() + "tokenizer_stand_in-" + std::to_string(::getpid()) + ".py";
};

TEST_F(TokenizerStandIn, InheritsNoDescriptorsOfTheProducer) {
    const UniqueFd kept_by_children(::open("/dev/null", O_RDONLY));  // like a run's lock
    TokenizerProcess tokenizer(
        program("reply(0, struct.pack('<I', len(os.listdir('/proc/self/fd'))))\nsys.stdin.read()\n"));
    EXPECT_EQ(tokenizer.open(), 4U) << "standard input, output and error, and the folder that is read";
}

TEST_F(TokenizerStandIn, EndsWithItsOwner) {
    pid_t pid = 0;
    {
        TokenizerProcess tokenizer(program("reply(0, struct.pack('<I', os.getpid()))\nsys.stdin.read()\n"));
        pid = static_cast<pid_t>(tokenizer.open());
        EXPECT_EQ(::kill(pid, 0), 0);
    }
    EXPECT_EQ(::kill(pid, 0), -1);
}

TEST_F(TokenizerStandIn, ReportsItsDeathDuringARun) {
    TokenizerProcess tokenizer(program("reply(0, struct.pack('<I', 5))\nos.read(0, 4)\nos._exit(1)\n"));
    tokenizer.open();
    EXPECT_THAT(error_of_encoding(tokenizer), HasSubstr("ended in the middle of its work"));
    EXPECT_THAT(error_of_encoding(tokenizer), HasSubstr("ended in the middle of its work")) << "reported again";
}

TEST_F(TokenizerStandIn, AFailureDuringARunDoesNotBlameTheTokenizerFile) {
    TokenizerProcess tokenizer(
        program("reply(0, struct.pack('<I', 5))\nos.read(0, 4096)\nreply(1, b'MemoryError: ')\n"));
    tokenizer.open();
    EXPECT_THAT(error_of_encoding(tokenizer), HasSubstr("gave up: MemoryError"));
}

TEST_F(TokenizerStandIn, RefusesRowsOfAnotherLength) {
    TokenizerProcess tokenizer(program("reply(0, struct.pack('<I', 5))\nos.read(0, 4096)\nreply(0, bytes(20))\n"));
    tokenizer.open();
    EXPECT_THAT(error_of_encoding(tokenizer), HasSubstr("gave 20 bytes, expected 28"));
}

TEST_F(TokenizerStandIn, UsesTheFileOfTheRunsStart) {
    const std::string text = path_ + ".txt";
    const std::string file = path_ + ".json";
    std::ofstream(text) << "text\n";
    std::ofstream(file) << "{}";
    auto settings = program("reply(0, struct.pack('<I', 5))\nsys.stdin.read()\n");
    settings.tokenizer = file;
    const TextLines lines(text);
    const std::uint64_t hash = hash_of_tokenizer(file);
    const auto text_of = [&lines](std::uint64_t line) { return lines.text(line); };
    LineTokenizer first(text_of, settings, hash);
    EXPECT_NO_THROW(first.open());
    EXPECT_EQ(first.tokens(), 5U);
    std::ofstream(file) << "{ }";
    LineTokenizer second(text_of, settings, hash);
    EXPECT_THAT([&second] { second.open(); },
                ::testing::ThrowsMessage<Error>(HasSubstr("was replaced by another tokenizer")));
    std::filesystem::remove(text);
    std::filesystem::remove(file);
}

// Each row holds its text's size.
TEST_F(TokenizerStandIn, AnUnreadAheadTextIsNotAnEmptyOne) {
    const auto settings_of = [this](const std::string& file) {
        auto settings = program(
            "reply(0, struct.pack('<I', 5))\n"
            "take = lambda size: sys.stdin.buffer.read(size) or os._exit(0)\n"
            "while True:\n"
            "    (texts,) = struct.unpack('<I', take(4))\n"
            "    sizes = struct.unpack(f'<{texts}I', take(4 * texts))\n"
            "    sys.stdin.buffer.read(sum(sizes))\n"
            "    reply(0, b''.join(struct.pack('<6i', *[size] * 6) for size in sizes) + bytes(4 * "
            "texts))\n");
        settings.tokenizer = file;
        return settings;
    };
    const std::string file = path_ + ".json";
    std::ofstream(file) << "{}";
    std::atomic<int> reads = 0;
    const auto fails_the_first_time = [&reads](std::uint64_t item) -> std::string {
        if (item == 1 && reads++ == 0) throw UnreadableItem("the disk was away");
        return std::string(item + 1, 'x');
    };
    TokenizedTexts texts(3, fails_the_first_time, settings_of(file));
    const auto row_of = [&texts](std::uint64_t item) {
        std::vector<std::int32_t> row(6);
        texts.load(item, std::as_writable_bytes(std::span(row)));
        return row;
    };
    EXPECT_EQ(row_of(0), std::vector<std::int32_t>(6, 1));
    EXPECT_THAT([&] { row_of(1); }, ::testing::ThrowsMessage<UnreadableItem>("the disk was away"));
    EXPECT_EQ(row_of(2), std::vector<std::int32_t>(6, 3));
    EXPECT_EQ(reads, 1);
    std::filesystem::remove(file);
}

TEST_F(TokenizerStandIn, WaitingForAnEndedProcessFails) {
    TokenizerProcess tokenizer(program("sys.stdin.read()\n"));  // never reports that it is ready
    std::thread beside([&tokenizer] { EXPECT_THROW(tokenizer.open(), Error); });
    tokenizer.end_input();
    beside.join();
}

}  // namespace
}  // namespace offramp
