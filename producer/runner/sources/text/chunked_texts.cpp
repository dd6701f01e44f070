#include "producer/runner/sources/text/chunked_texts.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/app/texts/recently_read.hpp"
#include "common/app/texts/text_table.hpp"
#include "common/base/error.hpp"
#include "common/base/utf8.hpp"
#include "common/wire/slab_header.hpp"
#include "producer/runner/sources/text/tokenized_texts.hpp"

namespace offramp {
namespace {

// A token has at least one byte; a model adds only a few tokens.
constexpr std::uint64_t kOwnTokens = 8;
constexpr std::size_t kMostCutters = 32;

// A chunk's place in its text.
struct ChunkPlace {
    TextSpan characters;
    std::uint32_t first_byte = 0, end_byte = 0;
};

// Begins and ends are both ascending.
std::vector<ChunkPlace> places_of(std::string_view text, const std::vector<TextSpan>& spans) {
    std::vector<ChunkPlace> places(spans.size());
    std::size_t begins = 0, ends = 0;
    std::uint32_t character = 0;
    for (std::size_t at = 0; begins < spans.size() || ends < spans.size();) {
        for (; begins < spans.size() && spans[begins].begin == character; ++begins)
            places[begins] = {.characters = spans[begins], .first_byte = static_cast<std::uint32_t>(at)};
        for (; ends < spans.size() && spans[ends].end == character; ++ends)
            places[ends].end_byte = static_cast<std::uint32_t>(at);
        if (at == text.size()) break;
        at += std::max<std::size_t>(utf8_character_bytes(text.substr(at)), 1);
        ++character;
    }
    expect(begins == spans.size() && ends == spans.size(), "chunks lie in their text, one behind the other");
    return places;
}

// Cuts long texts into chunks with several tokenizers.
class Cutting {
  public:
    Cutting(const ChunkedInput& input, const TokenizerProcess::Settings& settings, std::vector<std::uint64_t> texts)
        : input_(input), settings_(settings), texts_(std::move(texts)), cut_(texts_.size()) {}

    // The places in the order of the texts. Nothing for an unreadable text.
    std::vector<std::vector<ChunkPlace>> done() {
        if (texts_.empty()) return {};
        const std::size_t most = std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, kMostCutters);
        std::vector<std::jthread> others;
        for (std::size_t i = 1; i < std::min(most, texts_.size()); ++i) others.emplace_back([this] { work(false); });
        work(true);
        others.clear();  // waits for them
        if (failure_) std::rethrow_exception(failure_);
        return std::move(cut_);
    }

  private:
    void work(bool asks) noexcept {
        try {
            TokenizerProcess tokenizer(settings_);
            tokenizer.open();
            for (std::size_t at = next_++; at < texts_.size() && !over_; at = next_++) {
                if (asks && input_.still_wanted) input_.still_wanted();
                try {
                    const std::string text = input_.text(texts_[at]);
                    cut_[at] = places_of(text, tokenizer.spans(text));
                } catch (const UnreadableItem&) {  // the text is skipped with this reason in its turn
                }
            }
        } catch (...) {
            const std::lock_guard lock(mutex_);
            if (!failure_) failure_ = std::current_exception();
            over_ = true;
        }
    }

    const ChunkedInput& input_;
    const TokenizerProcess::Settings& settings_;
    std::vector<std::uint64_t> texts_;
    std::vector<std::vector<ChunkPlace>> cut_;
    std::atomic<std::size_t> next_ = 0;
    std::atomic<bool> over_ = false;
    std::mutex mutex_;
    std::exception_ptr failure_;
};

class ChunkedTexts final : public BatchSource {
  public:
    ChunkedTexts(ChunkedInput input, const TokenizerProcess::Settings& settings) : input_(std::move(input)) {
        list(settings);
        TokenizerProcess::Settings of_chunks = settings;
        of_chunks.chunk_tokens = 0;
        tokens_.emplace(
            items(), [this](std::uint64_t item) { return chunk(item); }, of_chunks);
        description_ = input_.description + ", in " + std::to_string(items()) + " chunks of at most " +
                       std::to_string(settings.chunk_tokens) + " tokens that overlap by at most " +
                       std::to_string(settings.chunk_overlap) + ", " + tokens_->described();
    }

    std::string description() const override { return description_; }
    std::vector<LeftOut> left_out() const override { return tokens_->left_out(); }
    std::uint64_t items() const override { return chunks_.size(); }
    RowKind row_kind() const override { return RowKind::Tokens; }
    std::string_view key(std::uint64_t item) const override { return chunks_[item].key; }
    std::string_view key_of_whole(std::uint64_t item) const override { return chunk_named(chunks_[item].key).text; }
    std::size_t max_key_bytes() const override { return max_key_bytes_; }
    std::uint64_t note_hash(std::uint64_t item) const override {
        const std::uint64_t hash = hashes_[chunks_[item].text];
        return XXH3_64bits_withSeed(&hash, sizeof hash, tokens_->tokenizer_hash());
    }
    std::string origin(std::uint64_t item) const override {
        return input_.origin(chunks_[item].text) + ", chunk " + std::to_string(chunk_named(chunks_[item].key).number);
    }
    void load(std::uint64_t item, std::span<std::byte> row) override { tokens_->load(item, row); }

  private:
    using HeldTexts = RecentlyRead<std::string>;

    struct Chunk {
        std::uint64_t text = 0;
        std::uint32_t first_byte = 0, end_byte = 0;
        bool is_whole = false;  // the item is the whole text
        std::string key;
    };

    void list(const TokenizerProcess::Settings& settings) {
        const std::uint64_t texts = input_.limit == 0 ? input_.texts : std::min(input_.texts, input_.limit);
        std::vector<std::uint64_t> to_cut;
        hashes_.reserve(texts);
        for (std::uint64_t text = 0; text < texts; ++text) {
            if (text % 4096 == 0 && input_.still_wanted) input_.still_wanted();
            hashes_.push_back(input_.hash(text));
            if (may_be_cut(text, settings)) to_cut.push_back(text);
        }
        const std::vector<std::vector<ChunkPlace>> cut = Cutting(input_, settings, to_cut).done();
        std::size_t next = 0;
        for (std::uint64_t text = 0; text < texts; ++text) {
            const bool was_cut = next < to_cut.size() && to_cut[next] == text;
            if (was_cut) {
                const std::vector<ChunkPlace>& places = cut[next++];
                for (std::uint32_t number = 0; number < places.size(); ++number)
                    add(text, number, places[number], places.size() == 1);
                if (!places.empty()) continue;
            }
            // The text is unreadable, or no longer than a chunk.
            const auto end = was_cut ? 0 : static_cast<std::uint32_t>(input_.characters(text));
            add(text, 0, {.characters = {.begin = 0, .end = end}}, true);
        }
    }

    bool may_be_cut(std::uint64_t text, const TokenizerProcess::Settings& settings) const {
        return input_.bytes(text) + settings.prompt.size() + kOwnTokens > settings.chunk_tokens;
    }

    void add(std::uint64_t text, std::uint32_t number, const ChunkPlace& place, bool is_whole) {
        const std::string whole = input_.key(text);
        Chunk chunk{
            .text = text,
            .first_byte = place.first_byte,
            .end_byte = place.end_byte,
            .is_whole = is_whole,
            .key = chunk_key(
                {.text = whole, .number = number, .begin = place.characters.begin, .end = place.characters.end})};
        if (chunk.key.size() > kMaxKeyBytes)
            throw ConfigError("the id of " + input_.origin(text) + " has " + std::to_string(whole.size()) +
                                  " bytes, too many for the names of its chunks",
                              "Shorten it to " + std::to_string(kMaxKeyBytes - 64) + " bytes");
        max_key_bytes_ = std::max(max_key_bytes_, chunk.key.size());
        chunks_.push_back(std::move(chunk));
    }

    std::string chunk(std::uint64_t item) {
        const Chunk& of = chunks_[item];
        if (of.is_whole) return input_.text(of.text);
        const std::lock_guard lock(mutex_);  // other threads need parts of the same text
        const std::string& text = held_.of(of.text, [this](std::uint64_t missing) -> HeldTexts::Read {
            std::string read = input_.text(missing);
            const std::uint64_t bytes = read.size();
            return {.value = std::move(read), .bytes = bytes};
        });
        return text.substr(of.first_byte, of.end_byte - of.first_byte);
    }

    ChunkedInput input_;
    std::mutex mutex_;
    HeldTexts held_;  // for long texts
    std::vector<Chunk> chunks_;
    std::size_t max_key_bytes_ = 0;
    std::optional<TokenizedTexts> tokens_;  // borrows the members above
    std::vector<std::uint64_t> hashes_;     // of the texts
    std::string description_;
};

}  // namespace

std::unique_ptr<BatchSource> make_chunked_texts(ChunkedInput input, const TokenizerProcess::Settings& settings) {
    return std::make_unique<ChunkedTexts>(std::move(input), settings);
}

}  // namespace offramp
