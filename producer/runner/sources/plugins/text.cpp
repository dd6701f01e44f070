#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/app/texts/text_table.hpp"
#include "common/base/utf8.hpp"
#include "producer/runner/sources/batch_source.hpp"
#include "producer/runner/sources/text/chunked_texts.hpp"
#include "producer/runner/sources/text/text_lines.hpp"
#include "producer/runner/sources/text/tokenized_texts.hpp"

namespace offramp {
namespace {

// One text per line, as tokens for a sentence encoder.
class TextSource final : public BatchSource {
  public:
    TextSource(const std::string& path, const TokenizerProcess::Settings& settings)
        : path_(path),
          lines_(path),
          tokens_(
              lines_.size(), [this](std::uint64_t item) { return lines_.text(item); }, settings),
          description_("text: " + std::to_string(lines_.size()) + " lines of '" + path + "', " + tokens_.described()) {}

    std::string description() const override { return description_; }
    std::vector<LeftOut> left_out() const override { return tokens_.left_out(); }
    std::uint64_t items() const override { return lines_.size(); }
    RowKind row_kind() const override { return RowKind::Tokens; }
    std::string_view key(std::uint64_t) const override { return {}; }
    std::size_t max_key_bytes() const override { return 0; }
    // A line's only name is its number, so its text and the tokenizer's hash identify it.
    std::uint64_t note_hash(std::uint64_t item) const override {
        if (lines_.is_too_long(item)) return tokens_.tokenizer_hash();
        try {
            const std::string line = lines_.line(item);
            return XXH3_64bits_withSeed(line.data(), line.size(), tokens_.tokenizer_hash());
        } catch (const UnreadableItem&) {
            return tokens_.tokenizer_hash();  // the line is skipped with this reason in its turn
        }
    }
    bool grows_at_its_end() const override { return true; }
    std::string origin(std::uint64_t item) const override {
        return path_ + " line " + std::to_string(item + 1) + " (key " + std::to_string(item) + ")";
    }
    void load(std::uint64_t item, std::span<std::byte> row) override { tokens_.load(item, row); }

  private:
    std::string path_;
    TextLines lines_;
    TokenizedTexts tokens_;  // borrows the lines
    std::string description_;
};

// Keys use the lines' numbers, as for lines that are not cut.
std::unique_ptr<BatchSource> chunks_of_lines(const SourceOptions& options, const TokenizerProcess::Settings& settings) {
    const std::string& path = options.input->input;
    const auto lines = std::make_shared<TextLines>(path, TextTable::kLongestToCut);
    const auto text = [lines](std::uint64_t number) { return lines->text(number); };
    return make_chunked_texts(
        {.description = "text: " + std::to_string(lines->size()) + " lines of '" + path + "'",
         .texts = lines->size(),
         .limit = options.input->limit,
         .key = [](std::uint64_t number) { return std::to_string(number); },
         .bytes = [lines](std::uint64_t number) { return lines->bytes(number); },
         .characters =
             [text](std::uint64_t number) {
                 try {
                     return std::uint64_t{utf8_characters(text(number))};
                 } catch (const UnreadableItem&) {  // the line is skipped with this reason in its turn
                     return std::uint64_t{0};
                 }
             },
         .text = text,
         .hash =
             [text](std::uint64_t number) {
                 try {
                     const std::string line = text(number);
                     return XXH3_64bits(line.data(), line.size());
                 } catch (const UnreadableItem&) {
                     return std::uint64_t{0};
                 }
             },
         .origin =
             [path](std::uint64_t number) {
                 return path + " line " + std::to_string(number + 1) + " (key " + std::to_string(number) + ")";
             },
         .still_wanted = options.still_wanted},
        settings);
}

}  // namespace

std::unique_ptr<BatchSource> make_text(const SourceOptions& options) {
    const TokenizerProcess::Settings settings =
        tokenizer_settings(options, "text", "Give a text file, one text a line");
    require_lines(options.input->input);
    if (settings.chunk_tokens > 0) return chunks_of_lines(options, settings);
    return std::make_unique<TextSource>(options.input->input, settings);
}

}  // namespace offramp
