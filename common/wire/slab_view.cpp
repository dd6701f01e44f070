#include "common/wire/slab_view.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include "common/base/error.hpp"
#include "common/wire/messages.hpp"

namespace offramp {
namespace {

std::string in_words(const char* text) { return text; }
template <class Number>
std::string in_words(Number number) {
    return std::to_string(number);
}

template <class Found, class Wanted>
void require(bool holds, const char* field, Found found, Wanted wanted) {
    if (!holds)
        throw ProtocolError("slab header: " + std::string(field) + " is " + in_words(found) + ", expected " +
                            in_words(wanted));
}

// The bytes of `count` records in the slab; the table must lie between the fixed header and the payload.
template <class Record>
std::span<const std::byte> find_table(std::span<const std::byte> header, const char* name, std::uint32_t offset,
                                      std::uint32_t count, std::uint32_t most) {
    require(count <= most, name, count, most);
    const std::size_t bytes = std::size_t{count} * sizeof(Record);
    require(offset >= sizeof(SlabHeader) && offset <= header.size() && bytes <= header.size() - offset, name, offset,
            header.size());
    return header.subspan(offset, bytes);
}

// Copies the record before the checks, so that the checked bytes are the used ones.
template <class Record>
Record record_at(std::span<const std::byte> table, std::size_t index) {
    Record record;
    copy_bytes(table.subspan(index * sizeof record, sizeof record), &record);
    return record;
}

void set_text(std::string& text, std::span<const char> field) {
    const std::string_view all(field.data(), field.size());
    text.assign(all.substr(0, all.find('\0')));
}

// `room`: the bytes after the header. No tensor may exceed it, so that no product below overflows.
void check_tensor(TensorView& view, const TensorRecord& record, std::span<const std::byte> payload,
                  std::uint32_t samples, std::size_t room) {
    set_text(view.spec.name, record.name);
    view.spec.dtype = {record.dtype_code, record.dtype_bits, record.dtype_lanes};
    view.spec.dims = record.dims;
    require(record.dims >= 1 && record.dims <= kMaxDims, "tensor dims", record.dims, kMaxDims);
    require(view.spec.dtype.whole_bytes(), "tensor dtype bits", record.dtype_bits * record.dtype_lanes,
            "whole bytes, 1 to 16");
    require(record.shape[0] == samples, "tensor rows", record.shape[0], samples);
    std::size_t row_bytes = view.spec.dtype.bytes();
    view.spec.shape = {};
    view.spec.strides = {};
    for (std::size_t d = 0; d < record.dims; ++d) {
        const std::int64_t extent = record.shape[d];
        view.spec.shape[d] = extent;
        view.spec.strides[d] = record.strides[d];
        if (d == 0) continue;
        require(extent >= 1 && row_bytes <= room / static_cast<std::size_t>(extent), "tensor shape", extent, room);
        row_bytes *= static_cast<std::size_t>(extent);
    }
    require(samples == 0 || view.spec.dense_rows(), "tensor strides", record.strides[0], "dense rows");
    require(samples == 0 || row_bytes <= room / samples, "tensor rows", samples, room);
    require(record.bytes == samples * row_bytes, "tensor bytes", record.bytes, samples * row_bytes);
    require(record.offset % kPayloadAlignment == 0 && record.offset <= payload.size() &&
                record.bytes <= payload.size() - record.offset,
            "tensor offset", record.offset, payload.size());
    view.bytes = payload.subspan(record.offset, record.bytes);
}

}  // namespace

std::span<const std::byte> TensorView::row(std::size_t index) const {
    const std::size_t size = spec.row_bytes();
    expect(index < static_cast<std::size_t>(spec.rows()), "a row of the tensor");
    return bytes.subspan(index * size, size);
}

SlabContents SlabContents::read(std::span<const std::byte> slab, std::uint64_t run_nonce, const SlabTicket& ticket) {
    SlabContents contents;
    contents.read_anew(slab, run_nonce, ticket);
    return contents;
}

void SlabContents::read_anew(std::span<const std::byte> from, std::uint64_t run_nonce, const SlabTicket& ticket) {
    SlabHeader header;
    require(from.size() >= sizeof header, "slab bytes", from.size(), sizeof header);
    std::memcpy(&header, from.data(), sizeof header);
    require(header.magic == kSlabMagic, "magic", header.magic, kSlabMagic);
    require(header.version == kSlabHeaderVersion, "version", header.version, kSlabHeaderVersion);
    require(header.run_nonce == run_nonce, "run", header.run_nonce, run_nonce);
    require(header.slab == ticket.slab, "slab", header.slab, ticket.slab);
    // A slab outlives the producer that filled it: its tickets may have a later epoch, but not an earlier one.
    require(header.epoch <= ticket.epoch, "epoch", header.epoch, ticket.epoch);
    require(header.generation == ticket.generation, "generation", header.generation, ticket.generation);
    require(header.header_bytes >= sizeof header && header.header_bytes <= from.size() &&
                header.header_bytes % kPageBytes == 0,
            "header bytes", header.header_bytes, from.size());
    require(header.payload_bytes <= from.size() - header.header_bytes, "payload bytes", header.payload_bytes,
            from.size() - header.header_bytes);
    require(header.transform <= static_cast<std::uint32_t>(OutputTransform::LowRes), "transform", header.transform,
            static_cast<std::uint32_t>(OutputTransform::LowRes));
    require(header.upsample_factor >= 1 && header.upsample_factor <= kMaxUpsampleFactor, "upsample_factor",
            header.upsample_factor, kMaxUpsampleFactor);

    const auto head = from.first(header.header_bytes);
    const auto payload = from.subspan(header.header_bytes, header.payload_bytes);
    const auto tensor_table =
        find_table<TensorRecord>(head, "tensor table", header.tensors_offset, header.tensor_count, kMaxTensorsPerSlab);
    const auto sample_table =
        find_table<SampleRecord>(head, "sample table", header.samples_offset, header.sample_count, kMaxSamplesPerSlab);
    const auto keys =
        find_table<char>(head, "key area", header.keys_offset, header.key_bytes, kMaxSamplesPerSlab * kMaxKeyBytes);
    const auto batch_table =
        find_table<BatchRecord>(head, "batch table", header.batches_offset, header.batch_count, kMaxSamplesPerSlab);

    generation = header.generation;
    epoch = header.epoch;
    slab = header.slab;
    payload_bytes = header.payload_bytes;
    transform = static_cast<OutputTransform>(header.transform);
    upsample_factor = header.upsample_factor;
    set_text(model, header.model);
    set_text(precision, header.precision);
    set_text(memory_format, header.memory_format);
    submitted_at_ns = header.submitted_at_ns;
    filled_at_ns = header.filled_at_ns;
    batches.resize(header.batch_count);
    copy_bytes(batch_table, batches.data());
    samples.resize(header.sample_count);
    for (std::uint32_t row = 0; row < header.sample_count; ++row) {
        const auto record = record_at<SampleRecord>(sample_table, row);
        require(record.key_bytes <= std::min<std::size_t>(kMaxKeyBytes, keys.size()) &&
                    record.key_offset <= keys.size() - record.key_bytes,
                "sample key", record.key_offset, keys.size());
        SampleView& view = samples[row];
        view.item = record.item;
        view.row = row;
        view.empty = (record.flags & kSampleEmpty) != 0;
        if (record.key_bytes == 0)
            view.key = std::to_string(record.item);
        else
            view.key.assign(reinterpret_cast<const char*>(keys.data()) + record.key_offset, record.key_bytes);
    }
    std::uint32_t next_sample = 0;
    for (const BatchRecord& piece : batches) {
        require(piece.first_row <= std::numeric_limits<std::uint32_t>::max() - piece.rows, "batch's first row",
                piece.first_row, piece.rows);
        require(piece.first_sample == next_sample && piece.rows <= header.sample_count - next_sample, "batch rows",
                piece.rows, header.sample_count - next_sample);
        for (std::uint32_t i = 0; i < piece.rows; ++i) samples[next_sample + i].batch = piece.batch;
        next_sample += piece.rows;
    }
    require(next_sample == header.sample_count, "rows of all batches", next_sample, header.sample_count);
    tensors.resize(header.tensor_count);
    for (std::uint32_t i = 0; i < header.tensor_count; ++i)
        check_tensor(tensors[i], record_at<TensorRecord>(tensor_table, i), payload, header.sample_count,
                     from.size() - header.header_bytes);
}

const TensorView& SlabContents::tensor(std::string_view name) const {
    if (name.empty() && tensors.size() == 1) return tensors.front();
    std::string known;
    for (const TensorView& view : tensors) {
        if (view.spec.name == name) return view;
        known += (known.empty() ? "" : ", ") + view.spec.describe();
    }
    throw ProtocolError("the slab has no output '" + std::string(name) + "'", "It has: " + known);
}

SlabWriter::SlabWriter(std::span<std::byte> slab, const SlabLayout& layout) : slab_(slab), layout_(&layout) {
    expect(slab.size() >= layout.slab_bytes, "the slab is as large as its layout");
}

void SlabWriter::begin(const HeaderFields& header_fields) {
    rows_ = batches_ = key_bytes_ = 0;
    SlabHeader header{};
    header.magic = kSlabMagic;
    header.version = kSlabHeaderVersion;
    header.header_bytes = static_cast<std::uint32_t>(layout_->header_bytes);
    header.run_nonce = header_fields.run_nonce;
    header.generation = header_fields.generation;
    header.epoch = header_fields.epoch;
    header.slab = header_fields.slab;
    header.tensors_offset = static_cast<std::uint32_t>(layout_->tensors_offset);
    header.batches_offset = static_cast<std::uint32_t>(layout_->batches_offset);
    header.samples_offset = static_cast<std::uint32_t>(layout_->samples_offset);
    header.keys_offset = static_cast<std::uint32_t>(layout_->keys_offset);
    header.transform = static_cast<std::uint32_t>(header_fields.transform);
    header.upsample_factor = header_fields.upsample_factor;
    put_text(header.model, header_fields.model);
    put_text(header.precision, header_fields.precision);
    put_text(header.memory_format, header_fields.memory_format);
    std::memcpy(slab_.data(), &header, sizeof header);
}

bool SlabWriter::add_batch(std::uint64_t batch, std::uint32_t first_row, std::span<const SampleEntry> samples) {
    std::size_t key_bytes = 0;
    for (const SampleEntry& sample : samples) key_bytes += sample.key.size();
    if (batches_ >= layout_->batches || rows_ + samples.size() > static_cast<std::size_t>(layout_->rows) ||
        key_bytes_ + key_bytes > layout_->key_capacity)
        return false;

    const BatchRecord piece{batch, first_row, static_cast<std::uint32_t>(samples.size()), rows_, 0};
    std::memcpy(slab_.data() + layout_->batches_offset + batches_ * sizeof piece, &piece, sizeof piece);
    ++batches_;
    for (const SampleEntry& sample : samples) {
        expect(sample.key.size() <= kMaxKeyBytes, "a key has at most kMaxKeyBytes bytes");
        const SampleRecord record{sample.item, key_bytes_, static_cast<std::uint16_t>(sample.key.size()),
                                  static_cast<std::uint16_t>(sample.empty ? kSampleEmpty : 0)};
        std::memcpy(slab_.data() + layout_->samples_offset + rows_ * sizeof record, &record, sizeof record);
        if (!sample.key.empty())
            std::memcpy(slab_.data() + layout_->keys_offset + key_bytes_, sample.key.data(), sample.key.size());
        key_bytes_ += static_cast<std::uint32_t>(sample.key.size());
        ++rows_;
    }
    return true;
}

void SlabWriter::make_empty(std::uint32_t row) {
    expect(row < rows_, "a row that was added");
    std::byte* const at = slab_.data() + layout_->samples_offset + row * sizeof(SampleRecord);
    SampleRecord record{};
    std::memcpy(&record, at, sizeof record);
    record.flags |= kSampleEmpty;
    std::memcpy(at, &record, sizeof record);
}

void SlabWriter::finish(std::uint64_t submitted_at_ns) {
    SlabHeader header;
    std::memcpy(&header, slab_.data(), sizeof header);
    header.tensor_count = static_cast<std::uint32_t>(layout_->tensors.size());
    header.batch_count = batches_;
    header.sample_count = rows_;
    header.key_bytes = key_bytes_;
    header.submitted_at_ns = submitted_at_ns;
    header.payload_bytes = 0;
    for (std::size_t i = 0; i < layout_->tensors.size(); ++i) {
        const TensorSpec spec = layout_->tensors[i].with_rows(rows_);
        TensorRecord record{};
        put_text(record.name, spec.name);
        record.dtype_code = spec.dtype.code;
        record.dtype_bits = spec.dtype.bits;
        record.dtype_lanes = spec.dtype.lanes;
        record.dims = static_cast<std::uint32_t>(spec.dims);
        record.shape = spec.shape;
        record.strides = spec.strides;
        record.offset = layout_->offsets[i];
        record.bytes = rows_ * spec.row_bytes();
        header.payload_bytes = record.offset + record.bytes;
        std::memcpy(slab_.data() + layout_->tensors_offset + i * sizeof record, &record, sizeof record);
    }
    std::memcpy(slab_.data(), &header, sizeof header);
}

void SlabWriter::write_filled_at(std::uint64_t filled_at_ns) {
    std::memcpy(slab_.data() + offsetof(SlabHeader, filled_at_ns), &filled_at_ns, sizeof filled_at_ns);
}

std::span<std::byte> SlabWriter::tensor_rows(std::size_t tensor, std::uint32_t first_row, std::uint32_t rows) {
    expect(tensor < layout_->tensors.size() && std::size_t{first_row} + rows <= static_cast<std::size_t>(layout_->rows),
           "rows of an output of the layout");
    const std::size_t row_bytes = layout_->tensors[tensor].row_bytes();
    return slab_.subspan(layout_->header_bytes + layout_->offsets[tensor] + first_row * row_bytes, rows * row_bytes);
}

void restamp_slab(std::span<std::byte> slab, std::uint32_t epoch, std::uint32_t number, std::uint64_t generation) {
    expect(slab.size() >= sizeof(SlabHeader), "a slab has room for its header");
    SlabHeader header{};
    copy_bytes(slab.first(sizeof header), &header);
    header.epoch = epoch;
    header.slab = number;
    header.generation = generation;
    std::memcpy(slab.data(), &header, sizeof header);
}

}  // namespace offramp
