#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace offramp {

// How the texts of a batch are computed one group after another, texts of similar lengths together: each group's rows
// are as long as its longest text, rounded up. It follows from the lengths of the batch's texts alone. On the device
// such a batch lies so:
//
//   | places int64 [batch] |gap| group 0: int32 [rows, 2, length] |gap| group 1: int32 [rows, 2, length] | ...
//
// Each begins at a multiple of 64 bytes. Row i of the batch is row places[i] of all groups' rows together, the longest
// texts first, and the rows that a short last batch lacks behind all. Groups of nothing else are left out: a place
// behind the last group's is of a row that nobody computes. A text without a token is computed in a row of kShortest.
struct LengthGroups {
    struct Group {
        std::uint32_t length = 0;  // tokens of each of its rows
        std::size_t offset = 0;    // bytes, from the batch's begin
    };

    std::uint32_t rows = 0;  // of each group
    std::vector<Group> groups;
    std::vector<std::int64_t> places;
    std::size_t bytes = 0;            // of all of it
    std::uint64_t tokens = 0;         // of the texts
    std::uint64_t padded_tokens = 0;  // that are computed: of the texts, and what fills them up

    // `lengths` are the tokens of each row of a full batch, a multiple of `rows`; none is longer than `longest`. The
    // first `items` rows are the batch's own; those behind have no token.
    LengthGroups(std::span<const std::uint32_t> lengths, std::size_t items, std::uint32_t rows, std::uint32_t longest);

    // That a batch takes at most.
    static std::size_t most_bytes(std::uint32_t batch, std::uint32_t rows, std::uint32_t longest);
    // The least tokens of a row: what a model of any length must take.
    static constexpr std::uint32_t kShortest = 4;
    // To a multiple of 4 up to 64, of 8 up to 128, and of 16 above, so that few shapes occur; `longest` at most.
    static std::uint32_t rounded_up(std::uint32_t length, std::uint32_t longest);
};

// Tokens of a row of ids and mask, [2, length]: up to its last one that is text.
std::uint32_t tokens_of_row(std::span<const std::int32_t> row);

}  // namespace offramp
