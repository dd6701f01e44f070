#include "producer/runner/sources/text/tokenized_texts.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <thread>
#include <utility>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/app/images/unreadable_item.hpp"
#include "common/app/program/own_process.hpp"
#include "common/app/texts/listed_texts.hpp"
#include "common/base/error.hpp"
#include "common/base/files.hpp"
#include "producer/runner/sources/source_items.hpp"
#include "producer/runner/sources/text/chunked_texts.hpp"

namespace offramp {
namespace {

constexpr unsigned kMostTokenizers = 32;

// minilm.tokenizer.json beside minilm.pt2, written by `offramp export`.
std::string tokenizer_of(const InputSettings& config, const ModelSettings& model, const std::string& source) {
    if (!config.tokenizer.empty()) return config.tokenizer;
    const std::string beside = std::filesystem::path(model.model).replace_extension(".tokenizer.json").string();
    if (std::filesystem::exists(beside)) return beside;
    throw ConfigError("--source " + source + " needs the model's tokenizer, but '" + beside + "' does not exist",
                      "Give --tokenizer FILE, the tokenizer.json that the model was trained with", ErrorKind::BadInput);
}

std::string python() {
    const char* const named = std::getenv("OFFRAMP_TOKENIZER_PYTHON");
    return named != nullptr && *named != '\0' ? named : "python3";
}

class TableSource final : public BatchSource {
  public:
    TableSource(const std::string& name, std::shared_ptr<TextTable> texts, const TokenizerProcess::Settings& settings,
                bool columns_are_read)
        : texts_(std::move(texts)),
          columns_are_read_(columns_are_read),
          tokens_(
              texts_->size(), [this](std::uint64_t item) { return texts_->text(item); }, settings),
          description_(name + ": " + texts_->description() + ", " + tokens_.described()) {
        max_key_bytes_ = bytes_of_longest_key(*this);
    }

    std::string description() const override { return description_; }
    std::vector<LeftOut> left_out() const override { return tokens_.left_out(); }
    std::uint64_t items() const override { return texts_->size(); }
    RowKind row_kind() const override { return RowKind::Tokens; }
    std::string_view key(std::uint64_t item) const override { return texts_->key(item); }
    std::size_t max_key_bytes() const override { return max_key_bytes_; }
    std::uint64_t note_hash(std::uint64_t item) const override {
        const std::uint64_t hash = texts_->hash(item);
        return XXH3_64bits_withSeed(&hash, sizeof hash, tokens_.tokenizer_hash());
    }
    std::string origin(std::uint64_t item) const override { return texts_->origin(item); }
    void load(std::uint64_t item, std::span<std::byte> row) override {
        if (columns_are_read_) (void)texts_->beside(item);
        tokens_.load(item, row);
    }

  private:
    std::shared_ptr<TextTable> texts_;
    bool columns_are_read_;
    TokenizedTexts tokens_;  // borrows the texts
    std::string description_;
    std::size_t max_key_bytes_ = 0;
};

}  // namespace

TokenizedTexts::TokenizedTexts(std::uint64_t items, TextOfItem text, const TokenizerProcess::Settings& settings)
    : text_(std::move(text)), length_(settings.length) {
    const std::uint64_t of_file = hash_of_tokenizer(settings.tokenizer);
    tokenizer_hash_ = settings.prompt.empty()
                          ? of_file
                          : XXH3_64bits_withSeed(settings.prompt.data(), settings.prompt.size(), of_file);
    auto first = std::make_unique<LineTokenizer>(text_, settings, of_file);
    first->open();
    described_ = "at most " + std::to_string(settings.length) + " tokens each of " + std::to_string(first->tokens());
    rows_.emplace(TokenBlocks::Settings{.rows = items,
                                        .row_numbers = 2 * std::size_t{settings.length},
                                        .most = std::clamp(std::thread::hardware_concurrency(), 1U, kMostTokenizers)},
                  std::move(first),
                  [this, settings, of_file] { return std::make_unique<LineTokenizer>(text_, settings, of_file); });
}

std::vector<LeftOut> TokenizedTexts::left_out() const {
    if (rows_->cut_rows() == 0) return {};
    return {{"texts with more than " + std::to_string(length_) +
                 " tokens, which were cut (--chunk-tokens makes several "
                 "vectors of one)",
             rows_->cut_rows()}};
}

TokenizerProcess::Settings tokenizer_settings(const SourceOptions& options, const std::string& source,
                                              const std::string& form) {
    const InputSettings& config = *options.input;
    const TensorSpec& wanted = options.model_input;
    if (wanted.dims != 3 || wanted.dtype != kInt32 || wanted.shape[1] != 2)
        throw ConfigError("--source " + source + " gives tokens, int32 [batch, 2, length], and the model takes " +
                              (wanted.dims == 0        ? std::string("no input")
                               : options.parts.empty() ? wanted.describe()
                                                       : describe_parts(options.parts)),
                          options.parts.empty() ? "Use a model of texts, made with ./launch/offramp export "
                                                  "sentence:FOLDER, or with --input NAME=ids:LENGTH"
                                                : kGiveArrays,
                          ErrorKind::BadInput);
    if (config.input.empty()) throw ConfigError("--source " + source + " needs --input FILE", form, ErrorKind::NoInput);
    return {.python = python(),
            .server = data_folder() + "/tokenizer_server.py",
            .tokenizer = tokenizer_of(config, *options.model, source),
            .length = static_cast<std::uint32_t>(wanted.shape[2]),
            .prompt = options.prompt,
            .chunk_tokens = config.chunk_tokens,
            .chunk_overlap = config.chunk_overlap};
}

std::unique_ptr<BatchSource> make_table_source(const std::string& name, const SourceOptions& options) {
    const TokenizerProcess::Settings settings =
        tokenizer_settings(options, name, "Give a file of texts, each with an id");
    std::shared_ptr<TextTable> texts = options.texts ? options.texts : open_texts(*options.input, options.still_wanted);
    if (settings.chunk_tokens > 0) {
        return make_chunked_texts({.description = name + ": " + texts->description(),
                                   .texts = texts->size(),
                                   .limit = options.input->limit,
                                   .key = [texts](std::uint64_t text) { return std::string(texts->key(text)); },
                                   .bytes = [texts](std::uint64_t text) { return texts->text_bytes(text); },
                                   .characters = [texts](std::uint64_t text) { return texts->text_characters(text); },
                                   .text =
                                       [texts, columns_are_read = options.columns_are_read](std::uint64_t text) {
                                           if (columns_are_read) (void)texts->beside(text);
                                           return texts->text(text);
                                       },
                                   .hash = [texts](std::uint64_t text) { return texts->hash(text); },
                                   .origin = [texts](std::uint64_t text) { return texts->origin(text); },
                                   .still_wanted = options.still_wanted},
                                  settings);
    }
    return std::make_unique<TableSource>(name, std::move(texts), settings, options.columns_are_read);
}

std::uint64_t hash_of_tokenizer(const std::string& path) try {
    const RegularFile file(path);
    std::vector<std::byte> bytes(file.size());
    return XXH3_64bits(bytes.data(), file.read_at(0, bytes));
} catch (const Error& reason) {
    throw ConfigError("--tokenizer '" + path + "' " + reason.what(),
                      "Give the tokenizer.json that the model was trained with", reason.kind());
}

LineTokenizer::LineTokenizer(TextOfItem text, const TokenizerProcess::Settings& settings, std::uint64_t file_hash)
    : text_(std::move(text)),
      file_(settings.tokenizer),
      file_hash_(file_hash),
      row_numbers_(2 * std::size_t{settings.length}),
      process_(settings) {}

void LineTokenizer::open() {
    tokens_ = process_.open();
    if (hash_of_tokenizer(file_) != file_hash_)
        throw Error(ErrorKind::System, "'" + file_ + "' was replaced by another tokenizer after the run had begun");
}

MadeRowFacts LineTokenizer::make(std::uint64_t first, std::span<std::int32_t> rows) {
    std::vector<std::string> lines(rows.size() / row_numbers_);
    MadeRowFacts facts;
    for (std::size_t i = 0; i < lines.size(); ++i) {
        try {
            lines[i] = text_(first + i);
        } catch (const UnreadableItem& problem) {
            facts.unreadable.emplace(first + i, problem.what());
        }
    }
    const auto was_cut = process_.encode(std::vector<std::string_view>(lines.begin(), lines.end()), rows);
    for (std::size_t i = 0; i < was_cut.size(); ++i)
        if (was_cut[i] != 0) facts.cut.insert(first + i);
    return facts;
}

}  // namespace offramp
