#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "common/base/error.hpp"
#include "common/base/unique_fd.hpp"
#include "producer/sources/text/tokenizer_process.hpp"
#include "producer/sources/text/tokenizer_processes.hpp"

namespace offramp {
namespace {

using ::testing::HasSubstr;

// Programs in the tokenizer's place that say something of themselves where the number of tokens is wanted.
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
        try {
            tokenizer.encode(texts, rows);
        } catch (const Error& problem) {
            EXPECT_EQ(problem.exit_code(), ExitCode::System);
            return problem.what();
        }
        return "it was encoded";
    }

    std::string path_ = ::testing::TempDir() + "tokenizer_stand_in-" + std::to_string(::getpid()) + ".py";
};

TEST_F(TokenizerStandIn, HasNoneOfTheProducersDescriptors) {
    const UniqueFd kept_by_children(::open("/dev/null", O_RDONLY));     // as a run's lock is
    TokenizerProcess tokenizer(program("reply(0, struct.pack('<I', len(os.listdir('/proc/self/fd'))))\nsys.stdin.read()\n"));
    EXPECT_EQ(tokenizer.tokens(), 4U) << "standard input, output and error, and the folder that is looked at";
}

TEST_F(TokenizerStandIn, EndsWithItsOwner) {
    pid_t pid = 0;
    {
        TokenizerProcess tokenizer(program("reply(0, struct.pack('<I', os.getpid()))\nsys.stdin.read()\n"));
        pid = static_cast<pid_t>(tokenizer.tokens());
        EXPECT_EQ(::kill(pid, 0), 0);
    }
    EXPECT_EQ(::kill(pid, 0), -1);
}

TEST_F(TokenizerStandIn, ItsDeathInMidRunIsSaid) {
    TokenizerProcess tokenizer(program("reply(0, struct.pack('<I', 5))\nos.read(0, 4)\nos._exit(1)\n"));
    EXPECT_THAT(error_of_encoding(tokenizer), HasSubstr("ended in the middle of its work"));
    EXPECT_THAT(error_of_encoding(tokenizer), HasSubstr("ended in the middle of its work")) << "and said again";
}

TEST_F(TokenizerStandIn, WhatItGivesUpInMidRunIsNoFaultOfTheTokenizersFile) {
    TokenizerProcess tokenizer(program("reply(0, struct.pack('<I', 5))\nos.read(0, 4096)\nreply(1, b'MemoryError: ')\n"));
    EXPECT_THAT(error_of_encoding(tokenizer), HasSubstr("gave up: MemoryError"));
}

TEST_F(TokenizerStandIn, RowsOfAnotherLengthAreRefused) {
    TokenizerProcess tokenizer(program("reply(0, struct.pack('<I', 5))\nos.read(0, 4096)\nreply(0, bytes(20))\n"));
    EXPECT_THAT(error_of_encoding(tokenizer), HasSubstr("gave 20 bytes, wanted 24"));
}

// Each answers once two have been asked.
constexpr const char* kTogether = R"(
import glob
reply(0, struct.pack('<I', 5))
while os.read(0, 4096):
    open(f'{sys.argv[0]}.{os.getpid()}', 'w').close()
    ends = time.monotonic() + 20
    while len(glob.glob(sys.argv[0] + '.*')) < 2 and time.monotonic() < ends:
        time.sleep(0.001)
    reply(0, struct.pack('<6i', *[len(glob.glob(sys.argv[0] + '.*'))] * 6))
)";

TEST_F(TokenizerStandIn, ThereAreMoreOfThemWhenThereWasWorkForMore) {
    const std::array<std::string_view, 1> texts{"text"};
    std::vector<std::int32_t> first(6), second(6);
    {
        TokenizerProcesses tokenizers(program(kTogether), 1);
        EXPECT_EQ(tokenizers.tokens(), 5U);
        EXPECT_EQ(tokenizers.at_once(), 1U);
        std::ofstream(path_ + ".0");    // the first request is not to wait
        tokenizers.encode(texts, first);
        EXPECT_EQ(tokenizers.at_once(), 2U);
        std::filesystem::remove(path_ + ".0");
        std::thread beside([&] { tokenizers.encode(texts, second); });
        tokenizers.encode(texts, first);
        beside.join();
    }
    EXPECT_EQ(first.front(), 2);
    EXPECT_EQ(second.front(), 2);
    for (const auto& file : std::filesystem::directory_iterator(std::filesystem::path(path_).parent_path()))
        if (file.path().string().starts_with(path_ + ".")) std::filesystem::remove(file);
}

TEST_F(TokenizerStandIn, WhenNoOtherCanBeStartedThoseThatAreThereGoOn) {
    const std::array<std::string_view, 1> texts{"text"};
    TokenizerProcesses tokenizers(program("reply(0, struct.pack('<I', 5))\n"
                                          "while os.read(0, 4096):\n"
                                          "    time.sleep(0.1)\n"
                                          "    reply(0, bytes(24))\n"), 1);
    std::vector<std::int32_t> rows(6);
    tokenizers.encode(texts, rows);
    program("reply(1, b'MemoryError: ')\n");     // from now on
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i)
        threads.emplace_back([&] {
            std::vector<std::int32_t> own(6);
            EXPECT_NO_THROW(tokenizers.encode(texts, own));
        });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(tokenizers.at_once(), 1U);
}

}  // namespace
}  // namespace offramp
