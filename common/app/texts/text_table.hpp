#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace offramp {

// A text's other data in its table.
struct BesideText {
    std::string id;       // the table's own id; the key may differ, to be a valid file name
    std::string columns;  // a JSON object on one line, members sorted by name
};

// Texts with ids and columns, in a stable order. The producer reads them by number; consumers list the same input and
// find a sample's columns by its key. Holds names, not texts. Thread: any, concurrently. Blocks: on the disk. Errors:
// text() and beside(): UnreadableItem with the reason.
class TextTable {
  public:
    virtual ~TextTable() = default;
    virtual std::string description() const = 0;  // "1200 lines of /data/reviews.jsonl"
    virtual std::uint64_t size() const = 0;
    virtual std::string_view key(std::uint64_t number) const = 0;  // from ItemKeys with the ids
    virtual std::string text(
        std::uint64_t number) const = 0;  // UTF-8, at most kLongestText bytes, or kLongestToCut with --chunk-tokens
    virtual std::uint64_t text_bytes(std::uint64_t number) const = 0;
    virtual std::uint64_t text_characters(std::uint64_t number) const = 0;  // Unicode code points
    virtual BesideText beside(std::uint64_t number) const = 0;
    // A hash that changes when ids, texts or columns change.
    virtual std::uint64_t hash(std::uint64_t number) const = 0;
    // The name of a text for errors, printable in a log line.
    virtual std::string origin(std::uint64_t number) const = 0;

    static constexpr std::uint64_t kLongestText = std::uint64_t{1} << 20;    // bytes
    static constexpr std::uint64_t kLongestToCut = std::uint64_t{16} << 20;  // bytes of a text that is cut into chunks
};

// A part of a text that is an item of its own (--chunk-tokens).
struct TextChunk {
    std::string_view text;     // the text's key; borrowed
    std::uint32_t number = 0;  // from 0
    std::uint64_t begin = 0;   // in the text's characters (Unicode code points)
    std::uint64_t end = 0;     // after the last character

    bool operator==(const TextChunk&) const = default;
};

// The key of a chunk, "KEY#3@120-480". With it, consumers need neither the text nor the tokenizer to locate the chunk.
std::string chunk_key(const TextChunk& chunk);
// Returns nothing if `key` is not the key of a chunk. Borrows `key`.
std::optional<TextChunk> chunk_of_key(std::string_view key);
// The same, but throws Error (System) if `key` is not the key of a chunk.
TextChunk chunk_named(std::string_view key);

}  // namespace offramp
