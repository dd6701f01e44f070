#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace offramp {

// A part of a text that is an item: --chunk-tokens.
struct TextChunk {
    std::string_view text;     // the text's key; borrowed
    std::uint32_t number = 0;  // from 0
    std::uint64_t begin = 0;   // in characters (Unicode code points) of the text
    std::uint64_t end = 0;     // behind the last

    bool operator==(const TextChunk&) const = default;
};

// The key of a chunk, "KEY#3@120-480": consumers need neither the text nor the tokenizer to know its place.
std::string chunk_key(const TextChunk& chunk);
// Nothing where that is not the key of a chunk. Borrows `key`.
std::optional<TextChunk> chunk_of_key(std::string_view key);
// The same. Errors: Error (System) where that is not the key of a chunk.
TextChunk chunk_named(std::string_view key);

}  // namespace offramp
