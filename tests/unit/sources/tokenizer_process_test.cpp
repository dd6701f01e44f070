#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>

#include "common/base/error.hpp"
#include "common/base/unique_fd.hpp"
#include "producer/sources/text/tokenizer_process.hpp"

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

}  // namespace
}  // namespace offramp
