#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/wire/ledger_layout.hpp"
#include "common/wire/slab_header.hpp"
#include "common/wire/slab_layout.hpp"
#include "common/wire/tensor_spec.hpp"

namespace offramp {

// One sample of a slab, as a reader sees it: its SampleRecord (slab_header.hpp), checked, with its place in slab and
// batch and the text of its key.
struct SampleView {
    std::uint64_t item = 0;   // number in the source
    std::uint64_t batch = 0;  // number of its batch
    std::uint32_t row = 0;    // of dimension 0 of every tensor of this slab
    bool empty = false;       // the item could not be read, or its outputs mean nothing: nor does its row
    std::string key;          // the source's key, or the item's number in decimal
};

// One tensor of a slab: spec.shape[0] samples, at `bytes`. Borrows the slab.
struct TensorView {
    TensorSpec spec;
    std::span<const std::byte> bytes;

    // The bytes of one sample: spec.row_bytes() of them, in the order that spec.strides[1..] say.
    std::span<const std::byte> row(std::size_t index) const;
};

// The checked contents of a slab: every count, offset and bound of the header was verified against `slab`, so that a
// processor can follow it blindly. Borrows the slab's bytes; valid while the loan on it is.
struct SlabContents {
    std::uint64_t generation = 0;
    std::uint32_t epoch = 0;
    std::uint32_t slab = 0;
    std::uint64_t payload_bytes = 0;
    OutputTransform transform = OutputTransform::None;
    std::uint32_t upsample_factor = 1;
    std::string model;
    std::string precision;
    std::string memory_format;
    std::uint64_t submitted_at_ns = 0;
    std::uint64_t filled_at_ns = 0;
    std::vector<BatchRecord> batches;
    std::vector<SampleView> samples;  // as many as dimension 0 of every tensor
    std::vector<TensorView> tensors;

    // Reads the header once and checks it. Errors: ProtocolError names the field, the found and the expected value, for
    // a wrong magic, version, run, slab, generation, or any bound beyond `slab`.
    static SlabContents read(std::span<const std::byte> slab, std::uint64_t run_nonce, const SlabTicket& ticket);
    // The same, into the memory of the previous slab. After an error the contents are undefined.
    void read_anew(std::span<const std::byte> slab, std::uint64_t run_nonce, const SlabTicket& ticket);

    // The tensor of this name, or, with an empty name, the only one. Errors: ProtocolError with the names that there
    // are.
    const TensorView& tensor(std::string_view name = {}) const;
};

// The bytes of a slab become another one: its header gets this slab's number, in this filling, under this epoch. The
// bytes must be a complete slab's (SlabContents::read).
void restamp_slab(std::span<std::byte> slab, std::uint32_t epoch, std::uint32_t number, std::uint64_t generation);

// One sample, as SlabWriter is given it: what its SampleRecord is made of. Its place follows from when it is added.
struct SampleEntry {
    std::uint64_t item = 0;
    std::string_view key;  // empty: the item's number replaces it
    bool empty = false;
};

// Fills the header of one slab. Order: begin, add_batch for each piece of a batch, finish.
// Borrows slab and layout. Thread: one at a time. Blocks: never. Errors: a caller's mistakes are broken contracts.
class SlabWriter {
  public:
    SlabWriter(std::span<std::byte> slab, const SlabLayout& layout);

    // Writes what is the same for the whole slab.
    struct HeaderFields {
        std::uint64_t run_nonce = 0;
        std::uint32_t epoch = 0;
        std::uint32_t slab = 0;
        std::uint64_t generation = 0;
        OutputTransform transform = OutputTransform::None;
        std::uint32_t upsample_factor = 1;
        std::string_view model;
        std::string_view precision;
        std::string_view memory_format;
    };
    void begin(const HeaderFields& header_fields);

    // Adds rows [first_row, first_row + samples.size()) of a batch behind what is there. False, and nothing changed,
    // when the slab has no room left for the samples, the batch entry or the keys.
    bool add_batch(std::uint64_t batch, std::uint32_t first_row, std::span<const SampleEntry> samples);

    // A row that was added means nothing after all.
    void make_empty(std::uint32_t row);
    // Writes tensor table and counts, for the rows added so far.
    void finish(std::uint64_t submitted_at_ns);
    // Writes the time at which the copy was seen done.
    void write_filled_at(std::uint64_t filled_at_ns);

    std::uint32_t rows() const { return rows_; }
    // Where `rows` rows of an output go, from row `first_row` of the slab.
    std::span<std::byte> tensor_rows(std::size_t tensor, std::uint32_t first_row, std::uint32_t rows);

  private:
    std::span<std::byte> slab_;
    const SlabLayout* layout_;
    std::uint32_t rows_ = 0;
    std::uint32_t batches_ = 0;
    std::uint32_t key_bytes_ = 0;
};

}  // namespace offramp
