#include "producer/runner/sources/text/tokenized_texts.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <thread>
#include <utility>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/app/program/data_folder.hpp"
#include "common/base/error.hpp"

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

}  // namespace offramp
