#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "common/images/still_wanted.hpp"
#include "producer/runner/sources/batch_source.hpp"
#include "producer/runner/sources/text/line_tokenizer.hpp"
#include "producer/runner/sources/text/tokenizer_process.hpp"

namespace offramp {

// Numbered texts that are to be cut into chunks. What it borrows outlives the source. Thread: `text` from many, and
// several at once.
struct ChunkedInput {
    std::string description;
    std::uint64_t texts = 0;
    std::uint64_t limit = 0;  // of texts; 0: all of them
    std::function<std::string(std::uint64_t text)> key;
    std::function<std::uint64_t(std::uint64_t text)> bytes;
    std::function<std::uint64_t(std::uint64_t text)> characters;
    TextOfItem text;
    std::function<std::uint64_t(std::uint64_t text)> hash;  // of what results depend on beside its key
    std::function<std::string(std::uint64_t text)> origin;
    StillWanted still_wanted;
};

// A source whose items are chunks of texts, text by text, each of at most settings.chunk_tokens tokens, that overlap by
// at most settings.chunk_overlap (tokenizer_server.py says where they are cut). Items are numbered and named
// (chunk_key()) by where the chunks are: each text that may have more tokens than a chunk, by its bytes, goes through a
// tokenizer when the source is made. A text that cannot be read is one item, that cannot be read either. Blocks: on the
// disk, and on tokenizers. Errors: those of `still_wanted` and TokenizerProcess; ConfigError for a text's key that is
// too long for those of its chunks.
std::unique_ptr<BatchSource> make_chunked_texts(ChunkedInput input, const TokenizerProcess::Settings& settings);

}  // namespace offramp
