#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace offramp {

// The place of a text's tokens in an output that has a row for each token of a batch, padding included.
struct TokenRows {
    std::uint64_t first = 0;
    std::uint32_t count = 0;

    bool operator==(const TokenRows&) const = default;
};

// Of texts in one block of rows of `longest` tokens. `lengths`: of each text.
std::vector<TokenRows> token_rows(std::span<const std::uint32_t> lengths, std::uint32_t longest);

// Computes a batch's texts in groups of similar length: each group's rows are as long as its longest text, rounded up.
// The grouping depends only on the lengths of the batch's texts. Layout of such a batch on the device:
//
//   | places int64 [batch] |gap| group 0: int32 [rows, 2, length] |gap| group 1: int32 [rows, 2, length] | ...
//
// Each begins at a multiple of 64 bytes. Row i of the batch is row places[i] of all groups' rows together: the longest
// texts first, and last the rows that a short last batch lacks. Groups of only such rows are left out: a place after
// the last group's belongs to a row that is not computed. A text without a token is computed in a row of kShortest.
struct LengthGroups {
    struct Group {
        std::uint32_t length = 0;  // tokens of each of its rows
        std::size_t offset = 0;    // in bytes, from the beginning of the batch
    };

    std::uint32_t rows = 0;  // in each group
    std::vector<Group> groups;
    std::vector<std::int64_t> places;
    std::size_t bytes = 0;            // size of the whole layout
    std::uint64_t tokens = 0;         // tokens of the texts
    std::uint64_t padded_tokens = 0;  // computed tokens: those of the texts, and padding
    std::vector<TokenRows> texts;     // of each row of the batch, in the groups' outputs one after another

    // `lengths` are the tokens of each row of a full batch, a multiple of `rows`; none is longer than `longest`. The
    // first `items` rows are the batch's own; later rows have no token.
    LengthGroups(std::span<const std::uint32_t> lengths, std::size_t items, std::uint32_t rows, std::uint32_t longest);

    // The most bytes that a batch takes.
    static std::size_t most_bytes(std::uint32_t batch, std::uint32_t rows, std::uint32_t longest);
    // The fewest tokens in a row: a model of any length must take it.
    static constexpr std::uint32_t kShortest = 4;
    // Rounds up to a multiple of 4 up to 64, of 8 up to 128, and of 16 above, so that few shapes occur; at most
    // `longest`.
    static std::uint32_t rounded_up(std::uint32_t length, std::uint32_t longest);
};

// Tokens of a row of ids and mask, [2, length]: up to its last token of text.
std::uint32_t tokens_of_row(std::span<const std::int32_t> row);

}  // namespace offramp
