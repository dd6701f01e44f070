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

// A reader's view of one sample of a slab: its validated SampleRecord (slab_header.hpp), its position in slab and
// batch, and its texts.
struct SampleView {
    std::uint64_t item = 0;   // number in the source
    std::uint64_t batch = 0;  // number of its batch
    std::uint32_t row = 0;    // index in dimension 0 of every tensor of this slab
    bool empty = false;       // the item is unreadable, or its outputs are meaningless: ignore its row
    std::string key;          // the source's key, or the item's number in decimal
    std::string metadata;     // a JSON object; empty: none
};

// One tensor of a slab: spec.shape[0] samples. Borrows the slab.
struct TensorView {
    TensorSpec spec;
    std::span<const std::byte> bytes;  // of all samples; of a tensor that varies: none

    // Of a tensor that varies: each sample's bytes, and its extents in the varying dimensions.
    std::vector<std::span<const std::byte>> samples{};
    std::vector<std::int64_t> extents{};

    // The bytes of one sample, in the order of spec.strides[1..], or row-major if the tensor varies.
    std::span<const std::byte> row(std::size_t index) const;
    // Of a tensor that varies: the sample's part of `extents`.
    std::span<const std::int64_t> extents_of(std::size_t index) const;
    // The sample as a tensor of one row.
    TensorSpec row_spec(std::size_t index) const;
};

// The validated contents of a slab: every count, offset and bound of the header was checked against `slab`, so that a
// processor need not check them. Borrows the slab's bytes; valid as long as the lease on the slab.
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

    // Reads the header once and validates it. Errors: ProtocolError with the field, the found and the expected value,
    // for a wrong magic, version, run, slab or generation, or a bound beyond `slab`.
    static SlabContents read(std::span<const std::byte> slab, std::uint64_t run_nonce, const SlabTicket& ticket);
    // The same, but reuses the memory of the previous slab's contents. After an error, the contents are undefined.
    void read_anew(std::span<const std::byte> slab, std::uint64_t run_nonce, const SlabTicket& ticket);

    // True if samples differ in shape.
    bool varies() const;
    // Of all samples in all tensors. `payload_bytes` is larger: it has the room between tensors, too.
    std::uint64_t tensor_bytes() const;
    // " of 'NAME'", the model or the Egress that made the slab; empty without a name.
    std::string origin() const;
    // The tensor with this name, or the only tensor if the name is empty. Errors: ProtocolError with the existing
    // names.
    const TensorView& tensor(std::string_view name = {}) const;

  private:
    void read_extents(std::span<const std::byte> head, const SlabHeader& header, std::span<const std::byte> payload);
};

// Turns copied bytes into another slab: writes this slab number, generation and epoch into the header. The bytes must
// be a complete slab (SlabContents::read).
void restamp_slab(std::span<std::byte> slab, std::uint32_t epoch, std::uint32_t number, std::uint64_t generation);

// One sample for SlabWriter, which makes a SampleRecord of it. The order of adding determines its position.
struct SampleEntry {
    std::uint64_t item = 0;
    std::string_view key;  // empty: the item's number is the key
    bool empty = false;
    std::string_view metadata{};  // a JSON object, or empty

    std::size_t text_bytes() const { return key.size() + metadata.size(); }
};

// Writes the header of one slab. Call begin(), add_batch() for each piece of a batch, then finish().
// Borrows slab and layout. Thread: one at a time. Blocks: never. Errors: a caller's mistake is a broken contract.
class SlabWriter {
  public:
    SlabWriter(std::span<std::byte> slab, const SlabLayout& layout);

    // The fields that apply to the whole slab.
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

    // Appends rows [first_row, first_row + samples.size()) of a batch. Returns false, and changes nothing, if the slab
    // has no room for the samples, the batch entry or the texts.
    bool add_batch(std::uint64_t batch, std::uint32_t first_row, std::span<const SampleEntry> samples);

    // Marks an added row as empty.
    void make_empty(std::uint32_t row);
    // Writes the tensor table and the counts for the rows added so far.
    void finish(std::uint64_t submitted_at_ns);
    // Writes the time at which the copy had completed.
    void write_filled_at(std::uint64_t filled_at_ns);

    std::uint32_t rows() const { return rows_; }
    // The bytes for `rows` rows of an output that does not vary, from row `first_row` of the slab.
    std::span<std::byte> tensor_rows(std::size_t tensor, std::uint32_t first_row, std::uint32_t rows);

    // How many of these samples one add_batch() can take, from the first. `bytes`: as in
    // SlabLayout::samples_with_room().
    std::uint32_t room_for(std::span<const SampleEntry> samples, std::span<const std::size_t> bytes) const;
    // The bytes for an added row of an output that varies. `extents`: of its varying dimensions. `follows`: directly
    // behind the bytes of the previous call. Call it once for each row of each such output.
    std::span<std::byte> place_row(std::size_t tensor, std::uint32_t row, std::span<const std::int64_t> extents,
                                   bool follows);

  private:
    bool has_room(std::size_t samples, std::size_t text_bytes) const;

    std::span<std::byte> slab_;
    const SlabLayout* layout_;
    std::uint32_t rows_ = 0;
    std::uint32_t batches_ = 0;
    std::uint32_t text_bytes_ = 0;
    std::size_t varying_end_ = 0;  // of the rows placed so far, in the area for outputs that vary
};

}  // namespace offramp
