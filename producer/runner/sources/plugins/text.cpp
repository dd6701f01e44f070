#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <thread>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/base/error.hpp"
#include "common/program/data_folder.hpp"
#include "producer/runner/sources/batch_source.hpp"
#include "producer/runner/sources/text/line_tokenizer.hpp"

namespace offramp {
namespace {

constexpr unsigned kMostTokenizers = 32;

// One text a line, as the tokens that a sentence encoder takes.
class TextSource final : public BatchSource {
  public:
    TextSource(const std::string& path, const TokenizerProcess::Settings& settings)
        : path_(path), lines_(path), tokenizer_hash_(hash_of_tokenizer(settings.tokenizer)) {
        auto first = std::make_unique<LineTokenizer>(lines_, settings, tokenizer_hash_);
        first->open();
        description_ = "text: " + std::to_string(lines_.size()) + " lines of '" + path + "', at most " +
                       std::to_string(settings.length) + " tokens each of " + std::to_string(first->tokens());
        rows_.emplace(
            TokenBlocks::Settings{.rows = lines_.size(),
                                  .row_numbers = 2 * std::size_t{settings.length},
                                  .most = std::clamp(std::thread::hardware_concurrency(), 1U, kMostTokenizers)},
            std::move(first),
            [this, settings] { return std::make_unique<LineTokenizer>(lines_, settings, tokenizer_hash_); });
    }

    std::string description() const override { return description_; }
    std::uint64_t items() const override { return lines_.size(); }
    RowKind row_kind() const override { return RowKind::Tokens; }
    std::string_view key(std::uint64_t) const override { return {}; }
    std::size_t max_key_bytes() const override { return 0; }
    // A line has no other name than its number: its text and the tokenizer's stand for it.
    std::uint64_t note_hash(std::uint64_t item) const override {
        if (lines_.is_too_long(item)) return tokenizer_hash_;
        try {
            const std::string line = lines_.line(item);
            return XXH3_64bits_withSeed(line.data(), line.size(), tokenizer_hash_);
        } catch (const UnreadableItem&) {
            return tokenizer_hash_;  // it is skipped with this reason when its turn comes
        }
    }
    bool grows_at_its_end() const override { return true; }
    std::string origin(std::uint64_t item) const override {
        return path_ + " line " + std::to_string(item + 1) + " (key " + std::to_string(item) + ")";
    }
    void load(std::uint64_t item, std::span<std::byte> row) override {
        lines_.text(item);  // throws where there is none
        rows_->copy_row(item, row);
    }

  private:
    std::string path_;
    TextLines lines_;
    std::uint64_t tokenizer_hash_;
    std::string description_;
    std::optional<TokenBlocks> rows_;  // whose makers borrow the lines
};

// minilm.tokenizer.json beside minilm.pt2, where `offramp export` puts it.
std::string tokenizer_of(const InputSettings& config, const ModelSettings& model) {
    if (!config.tokenizer.empty()) return config.tokenizer;
    const std::string beside = std::filesystem::path(model.model).replace_extension(".tokenizer.json").string();
    if (std::filesystem::exists(beside)) return beside;
    throw ConfigError("--source text needs the model's tokenizer, and '" + beside + "' is not there",
                      "Give --tokenizer FILE, the tokenizer.json that the model was trained with", ErrorKind::BadInput);
}

std::string python() {
    const char* const named = std::getenv("OFFRAMP_TOKENIZER_PYTHON");
    return named != nullptr && *named != '\0' ? named : "python3";
}

}  // namespace

std::unique_ptr<BatchSource> make_text(const SourceOptions& options) {
    const InputSettings& config = *options.input;
    const TensorSpec& wanted = options.model_input;
    if (wanted.dims != 3 || wanted.dtype != kInt32 || wanted.shape[1] != 2)
        throw ConfigError("--source text gives tokens, int32 [batch, 2, length], and the model takes " +
                              (wanted.dims == 0        ? std::string("no input")
                               : options.parts.empty() ? wanted.describe()
                                                       : describe_parts(options.parts)),
                          options.parts.empty() ? "Use a model of texts, made with ./launch/offramp export "
                                                  "sentence:FOLDER, or with --input NAME=ids:LENGTH"
                                                : kGiveArrays,
                          ErrorKind::BadInput);
    if (config.input.empty())
        throw ConfigError("--source text needs --input FILE", "Give a text file, one text a line", ErrorKind::NoInput);
    require_lines(config.input);
    return std::make_unique<TextSource>(
        config.input, TokenizerProcess::Settings{.python = python(),
                                                 .server = data_folder() + "/tokenizer_server.py",
                                                 .tokenizer = tokenizer_of(config, *options.model),
                                                 .length = static_cast<std::uint32_t>(wanted.shape[2])});
}

}  // namespace offramp
