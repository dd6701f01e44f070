#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "common/app/images/picture_list.hpp"
#include "producer/runner/sources/batch_source.hpp"
#include "producer/runner/sources/text/tokenized_texts.hpp"
#include "producer/runner/sources/text/tokenizer_process.hpp"

namespace offramp {

// Numbered texts to be cut into chunks. Its borrowed objects outlive the source. Thread: `text` from many concurrently.
struct ChunkedInput {
    std::string description;
    std::uint64_t texts = 0;
    std::uint64_t limit = 0;  // texts; 0: all
    std::function<std::string(std::uint64_t text)> key;
    std::function<std::uint64_t(std::uint64_t text)> bytes;
    std::function<std::uint64_t(std::uint64_t text)> characters;
    TextOfItem text;
    // of the data, besides the text's key, that results depend on
    std::function<std::uint64_t(std::uint64_t text)> hash;
    std::function<std::string(std::uint64_t text)> origin;
    StillWanted still_wanted;
};

// A source whose items are chunks of texts, text by text, each of at most settings.chunk_tokens tokens, with overlaps
// of at most settings.chunk_overlap (tokenizer_server.py describes where they are cut). The places of chunks determine
// the items' numbers and names (chunk_key()): each text that may have more tokens than a chunk, by its bytes, goes
// through a tokenizer when the source is made. An unreadable text is one unreadable item. Blocks: on the disk, and on
// tokenizers. Errors: those of `still_wanted` and TokenizerProcess; ConfigError for a text's key that is too long for
// those of its chunks.
std::unique_ptr<BatchSource> make_chunked_texts(ChunkedInput input, const TokenizerProcess::Settings& settings);

}  // namespace offramp
