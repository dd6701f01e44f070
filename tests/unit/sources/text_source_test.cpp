#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "common/app/settings/run_config.hpp"
#include "common/base/error.hpp"
#include "producer/runner/sources/batch_source.hpp"
#include "tests/support/error_of.hpp"

namespace offramp {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A tokenizer of whole words, in the format of the `tokenizers` library.
constexpr const char* kWords = R"({"version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
    "normalizer": {"type": "Lowercase"}, "pre_tokenizer": {"type": "Whitespace"}, "post_processor": null, "decoder": null,
    "model": {"type": "WordLevel", "vocab": {"[PAD]": 0, "[UNK]": 1, "slab": 2, "lease": 3, "ticket": 4}, "unk_token": "[UNK]"}})";

struct TextSource : ::testing::Test {
    void SetUp() override {
        folder = std::filesystem::path(::testing::TempDir()) / ("text_source_test-" + std::to_string(::getpid()));
        std::filesystem::create_directories(folder);
        config.source = "text";
        config.input = write("input.txt", "Slab lease\n\nticket what slab lease slab\nno \xff utf-8\n");
        config.tokenizer = write("words.json", kWords);
        ::setenv("OFFRAMP_TOKENIZER_PYTHON", OFFRAMP_TEST_PYTHON, 1);
    }
    void TearDown() override { std::filesystem::remove_all(folder); }

    std::string write(const std::string& name, const std::string& text) const {
        std::ofstream(folder / name, std::ios::binary) << text;
        return folder / name;
    }

    std::unique_ptr<BatchSource> make() {
        const auto entries = SourceEntry::all();
        const auto entry = std::find_if(entries.begin(), entries.end(), [](const auto& e) { return e.name == "text"; });
        if (entry == entries.end()) throw std::runtime_error("not in the table");
        return entry->make({.input = &config, .model = &config, .model_input = input, .parts = {}});
    }

    std::string error(ErrorKind code) {
        return test::error_of([&] { make(); }, code);
    }

    // The child processes of this one, of any of its threads.
    static std::size_t children() {
        std::size_t count = 0;
        for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
            std::ifstream pids(thread.path() / "children");
            for (int pid = 0; pids >> pid;) ++count;
        }
        return count;
    }

    std::vector<std::int32_t> row(BatchSource& source, std::uint64_t item) const {
        std::vector<std::int32_t> numbers(static_cast<std::size_t>(2 * input.shape[2]));
        source.load(item, std::as_writable_bytes(std::span(numbers)));
        return numbers;
    }

    std::filesystem::path folder;
    RunConfig config;
    TensorSpec input = TensorSpec::contiguous("tokens", kInt32, std::vector<std::int64_t>{4, 2, 3});
};

// The real library; without it these are skipped.
class TokenizedText : public TextSource {
  protected:
    void SetUp() override {
        TextSource::SetUp();
        if (::system("'" OFFRAMP_TEST_PYTHON "' -c 'import tokenizers' 2>/dev/null") != 0)
            GTEST_SKIP() << "no PyPI package `tokenizers`";
    }
};

TEST_F(TokenizedText, HasIdsAndAMask) {
    const auto source = make();
    ASSERT_EQ(source->items(), 4U);
    EXPECT_EQ(source->row_kind(), RowKind::Tokens);
    EXPECT_THAT(row(*source, 0), ElementsAre(2, 3, 0, 1, 1, 0));
    EXPECT_THAT(row(*source, 1), ElementsAre(0, 0, 0, 0, 0, 0)) << "an empty line is an empty text";
    EXPECT_THAT(row(*source, 2), ElementsAre(4, 1, 2, 1, 1, 1)) << "cut to the model's length";
    EXPECT_THAT(source->description(), AllOf(HasSubstr("4 lines"), HasSubstr("at most 3 tokens each of 5")));
}

TEST_F(TokenizedText, IsTheSameWithManyTokenizers) {
    constexpr std::uint64_t kLines = 12'000;
    const std::array<std::string, 3> words{"slab", "lease", "ticket"};
    const auto word = [](std::uint64_t line, std::uint64_t place) { return (line * 7 + line / 11 + place * 5) % 3; };
    std::string text;
    for (std::uint64_t line = 0; line < kLines; ++line)
        for (std::uint64_t place = 0; place < 100; ++place)
            text += words[word(line, place)] + (place < 99 ? " " : "\n");
    config.input = write("many.txt", text);
    const auto source = make();
    std::atomic<std::uint64_t> wrong = 0;
    const auto read_all = [&] {
        std::atomic<std::uint64_t> next = 0;
        std::vector<std::thread> threads;
        for (int i = 0; i < 4; ++i)
            threads.emplace_back([&] {
                for (std::uint64_t line = next++; line < kLines; line = next++) {
                    const auto id = [&](std::uint64_t place) {
                        return static_cast<std::int32_t>(2 + word(line, place));
                    };
                    if (row(*source, line) != std::vector<std::int32_t>{id(0), id(1), id(2), 1, 1, 1}) ++wrong;
                }
            });
        for (std::thread& thread : threads) thread.join();
    };
    const std::size_t least = std::thread::hardware_concurrency() > 1 ? 2 : 1;
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    read_all();
    // Another tokenizer joins if readers only wait for the first: not always on a busy machine.
    while (children() < least && std::chrono::steady_clock::now() < until) read_all();
    EXPECT_EQ(wrong, 0U);
    EXPECT_GE(children(), least);
}

TEST_F(TokenizedText, CountsTruncatedTexts) {
    config.input = write(
        "long.txt", "slab slab slab slab slab slab slab slab slab\nslab\nlease lease lease lease lease lease lease\n");
    auto source = make();
    EXPECT_TRUE(source->left_out().empty()) << "no text is loaded yet";
    for (std::uint64_t item = 0; item < source->items(); ++item) row(*source, item);
    ASSERT_EQ(source->left_out().size(), 1U);
    EXPECT_EQ(source->left_out().front().count, 2U);
    EXPECT_THAT(source->left_out().front().what, HasSubstr("were cut"));
}

TEST_F(TokenizedText, SkipsAndNamesALineThatIsNotText) {
    const auto source = make();
    EXPECT_THROW(row(*source, 3), UnreadableItem);
    EXPECT_THAT(row(*source, 2), ElementsAre(4, 1, 2, 1, 1, 1)) << "its neighbours are read";
    EXPECT_THAT(source->origin(3), HasSubstr("input.txt line 4 (key 3)"));
}

TEST_F(TokenizedText, OtherWordsOrTokenizersChangeTheFingerprint) {
    const auto note = [this](std::uint64_t item) { return make()->note_hash(item); };
    const std::uint64_t before = note(0);
    EXPECT_EQ(before, note(0));
    EXPECT_NE(before, note(2));
    config.tokenizer = write("words.json", std::string(kWords) + " ");
    EXPECT_NE(before, note(0));
}

TEST_F(TokenizedText, FindsTheTokenizerBesideTheModel) {
    config.tokenizer.clear();
    config.model = folder / "minilm.pt2";
    EXPECT_THAT(error(ErrorKind::BadInput), AllOf(HasSubstr("minilm.tokenizer.json"), HasSubstr("--tokenizer FILE")));
    write("minilm.tokenizer.json", kWords);
    EXPECT_THAT(row(*make(), 0), ElementsAre(2, 3, 0, 1, 1, 0));
}

TEST_F(TokenizedText, ReportsTheLibrarysErrorForAnInvalidTokenizer) {
    config.tokenizer = write("words.json", "{}");
    EXPECT_THAT(error(ErrorKind::BadInput),
                AllOf(HasSubstr("words.json"), HasSubstr("Exception: "), HasSubstr("Give a tokenizer.json")));
}

TEST_F(TextSource, NamesAMissingPython) {
    ::setenv("OFFRAMP_TOKENIZER_PYTHON", "/nowhere/python3", 1);
    EXPECT_THAT(error(ErrorKind::System), AllOf(HasSubstr("/nowhere/python3"), HasSubstr("OFFRAMP_TOKENIZER_PYTHON")));
}

TEST_F(TextSource, RefusesAProgramThatEndsImmediately) {
    ::setenv("OFFRAMP_TOKENIZER_PYTHON", "true", 1);
    EXPECT_THAT(error(ErrorKind::System), HasSubstr("ended in the middle of its work"));
    EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "it is reaped";
}

TEST_F(TextSource, RefusesAModelWithoutTokens) {
    input = TensorSpec::contiguous("image", kFloat32, std::vector<std::int64_t>{4, 3, 20, 20});
    EXPECT_THAT(error(ErrorKind::BadInput), AllOf(HasSubstr("float32"), HasSubstr("export sentence:FOLDER")));
    input = {};
    EXPECT_THAT(error(ErrorKind::BadInput), HasSubstr("takes no input"));
}

TEST_F(TextSource, RefusesUtf16WithTheRemedy) {
    using namespace std::string_literals;
    for (const std::string& front : {"\xff\xfes\0l\0"s, "\xfe\xff\0s\0l"s, "s\0l\0a\0b\0\n\0"s, "\0s\0l\0a\0b"s}) {
        config.input = write("powershell.txt", front);
        EXPECT_THAT(error(ErrorKind::BadInput), AllOf(HasSubstr("UTF-16"), HasSubstr("iconv -f UTF-16 -t UTF-8")));
    }
}

TEST_F(TextSource, RefusesAMissingOrEmptyInput) {
    config.input.clear();
    EXPECT_THAT(error(ErrorKind::NoInput), HasSubstr("--input FILE"));
}

}  // namespace
}  // namespace offramp
