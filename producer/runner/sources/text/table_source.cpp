#include "producer/runner/sources/text/table_source.hpp"

#include <algorithm>
#include <utility>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/app/texts/open_texts.hpp"
#include "producer/runner/sources/text/chunked_texts.hpp"
#include "producer/runner/sources/text/tokenized_texts.hpp"

namespace offramp {
namespace {

class TableSource final : public BatchSource {
  public:
    TableSource(const std::string& name, std::shared_ptr<TextTable> texts, const TokenizerProcess::Settings& settings,
                bool columns_are_read)
        : texts_(std::move(texts)),
          columns_are_read_(columns_are_read),
          tokens_(
              texts_->size(), [this](std::uint64_t item) { return texts_->text(item); }, settings),
          description_(name + ": " + texts_->description() + ", " + tokens_.described()) {
        for (std::uint64_t item = 0; item < items(); ++item)
            max_key_bytes_ = std::max(max_key_bytes_, key(item).size());
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

}  // namespace offramp
