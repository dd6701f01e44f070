#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/app/images/geometry.hpp"

namespace offramp {

// Finds out whether a JPEG file is whole, without computing its pixels. Decoders on a GPU do not report damage: they
// return a picture for half a file, too. So the CPU reads the Huffman codes first, at a fifth of the cost of
// decoding. Keeps scratch memory between files. Thread: one at a time. Blocks: never.
class WholeJpegCheck {
  public:
    // Pictures of other sizes are not looked at.
    struct Sizes {
        std::uint32_t shortest_side = 1, longest_side = 65'535;
        std::uint64_t pixels = std::uint64_t{65'535} * 65'535;
    };
    WholeJpegCheck() = default;
    explicit WholeJpegCheck(const Sizes& accepted) : accepted_(accepted) {}

    struct Picture {
        ImageSize size;                // as stored in the file
        std::size_t bytes_to_end = 0;  // of the file, up to its end marker
    };
    // The picture, if the file is of the plain kind that all decoders agree on, and undamaged: 8 bits, baseline, one
    // scan, gray or YCbCr with common subsampling, every block within its data. Nothing: another kind, or anything
    // unusual; JpegPicture reads it, or throws the reason.
    std::optional<Picture> operator()(std::span<const std::byte> file);

  private:
    // A Huffman code, as a table over the next kLookupBits bits.
    struct Code {
        static constexpr unsigned kLookupBits = 12;
        static constexpr std::uint8_t kEndsBlock = 0x80;
        // The effect of the first symbol, and of as many as the bits determine: a lookup serves two on average.
        struct Entry {
            std::uint8_t first_bits = 0;     // of its code and the number behind it; 0: a longer code, or a wrong one
            std::uint8_t first_advance = 0;  // in coefficients, or kEndsBlock; of a difference: the number's bits
            std::uint8_t bits = 0;
            std::uint8_t advance = 0;  // with kEndsBlock if the last symbol ends the block
        };
        std::vector<std::byte> definition;  // the table in the file; empty: none
        Entry entries[1U << kLookupBits];
        // Codes of each length: one past the largest, aligned to 16 bits, and the symbol of the first, less the code.
        std::uint32_t end[17];
        std::int32_t first_symbol[17];
        std::uint8_t symbols[256];

        bool define(std::span<const std::byte> table, bool is_dc);
        // The symbol at the front of 16 bits, and its length; -1: no code.
        int find(std::uint32_t next, unsigned& length) const;

      private:
        void combine(std::span<const std::uint8_t> code_bits);
    };
    struct Component {
        unsigned id = 0, across = 0, down = 0, quantization = 0;
        const Code* dc = nullptr;
        const Code* ac = nullptr;
        int average = 0;  // of the block before: the sum of the differences so far
    };
    struct Bits;

    bool read_frame(std::span<const std::byte> segment);
    bool read_tables(std::span<const std::byte> segment);
    bool read_quantization(std::span<const std::byte> segment);
    bool read_scan_header(std::span<const std::byte> segment);
    bool is_known_colour() const;
    std::size_t end_of_scan(std::span<const std::byte> data);
    bool read_blocks(std::uint64_t units);

    Sizes accepted_;
    ImageSize size_;
    std::vector<Component> components_;
    Code dc_[2], ac_[2];
    bool dc_defined_[2] = {}, ac_defined_[2] = {};
    bool quantization_[4] = {};
    std::uint32_t restart_interval_ = 0;
    bool jfif_ = false;
    int adobe_ = -1;                   // the colour transform; -1: no such segment
    std::vector<std::uint8_t> plain_;  // a stretch of codes between markers, without stuffed zeros
    std::size_t plain_bytes_ = 0;
};

}  // namespace offramp
