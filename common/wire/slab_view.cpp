#include "common/wire/slab_view.hpp"

#include <algorithm>
#include <array>
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
    view.samples.clear();
    view.extents.clear();
    for (std::size_t d = 0; d < record.dims; ++d) {
        const std::int64_t extent = record.shape[d];
        view.spec.shape[d] = extent;
        view.spec.strides[d] = record.strides[d];
        if (d == 0 || extent == kVarying) continue;
        require(extent >= 1 && row_bytes <= room / static_cast<std::size_t>(extent), "tensor shape", extent, room);
        row_bytes *= static_cast<std::size_t>(extent);
    }
    if (view.spec.varies()) {  // check_sample() checks the rest
        view.spec.strides = {};
        view.bytes = {};
        return;
    }
    require(samples == 0 || view.spec.dense_rows(), "tensor strides", record.strides[0], "dense rows");
    require(samples == 0 || row_bytes <= room / samples, "tensor rows", samples, room);
    require(record.bytes == samples * row_bytes, "tensor bytes", record.bytes, samples * row_bytes);
    require(record.offset % kPayloadAlignment == 0 && record.offset <= payload.size() &&
                record.bytes <= payload.size() - record.offset,
            "tensor offset", record.offset, payload.size());
    view.bytes = payload.subspan(record.offset, record.bytes);
}

std::size_t extent_words_of(const std::vector<TensorView>& tensors) {
    std::size_t words = 0;
    for (const TensorView& tensor : tensors)
        if (tensor.spec.varies()) words += 1 + tensor.spec.varying_dims();
    return words;
}

// The largest power of two that divides the size of an element.
std::size_t alignment_of(DType dtype) { return dtype.bytes() & (~dtype.bytes() + 1); }

// One sample of a tensor that varies. `words`: its offset and extents in the table. `left`: bytes that samples may
// still have, so that not all of them are the same bytes.
void check_sample(TensorView& tensor, std::span<const std::uint64_t> words, std::span<const std::byte> payload,
                  std::size_t& left) {
    const auto extents = words.subspan(1);
    for (const std::uint64_t extent : extents) {
        require(extent <= static_cast<std::uint64_t>(kMostExtent), "sample extent", extent, kMostExtent);
        tensor.extents.push_back(static_cast<std::int64_t>(extent));
    }
    const auto own = std::span(tensor.extents).last(extents.size());
    const auto bytes = tensor.spec.sample_bytes(own, left);
    require(bytes.has_value(), "sample extent", own.front(), left);
    left -= *bytes;
    require(words[0] % alignment_of(tensor.spec.dtype) == 0 && words[0] <= payload.size() &&
                *bytes <= payload.size() - words[0],
            "sample offset", words[0], payload.size());
    tensor.samples.push_back(payload.subspan(words[0], *bytes));
}

}  // namespace

std::span<const std::byte> TensorView::row(std::size_t index) const {
    if (!samples.empty()) {  // it varies
        expect(index < samples.size(), "a row of the tensor");
        return samples[index];
    }
    const std::size_t size = spec.row_bytes();
    expect(index < static_cast<std::size_t>(spec.rows()), "a row of the tensor");
    return bytes.subspan(index * size, size);
}

std::span<const std::int64_t> TensorView::extents_of(std::size_t index) const {
    const std::size_t varying = spec.varying_dims();
    return std::span(extents).subspan(index * varying, varying);
}

TensorSpec TensorView::row_spec(std::size_t index) const {
    return spec.varies() ? spec.of_sample(extents_of(index)) : spec.with_rows(1);
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
    const auto texts = find_table<char>(head, "area of texts", header.texts_offset, header.text_bytes,
                                        kMaxSamplesPerSlab * (kMaxKeyBytes + kMaxMetadataBytes));
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
    std::size_t left = texts.size();  // that samples may still have, so that not all of them have the same text
    for (std::uint32_t row = 0; row < header.sample_count; ++row) {
        const auto record = record_at<SampleRecord>(sample_table, row);
        require(record.key_bytes <= kMaxKeyBytes, "sample key's bytes", record.key_bytes, kMaxKeyBytes);
        require(record.metadata_bytes <= kMaxMetadataBytes, "sample metadata's bytes", record.metadata_bytes,
                kMaxMetadataBytes);
        const std::size_t text_bytes = std::size_t{record.key_bytes} + record.metadata_bytes;
        require(text_bytes <= left && record.text_offset <= texts.size() - text_bytes, "sample text",
                record.text_offset, texts.size());
        left -= text_bytes;
        const auto* const text = reinterpret_cast<const char*>(texts.data()) + record.text_offset;
        SampleView& view = samples[row];
        view.item = record.item;
        view.row = row;
        view.empty = (record.flags & kSampleEmpty) != 0;
        if (record.key_bytes == 0)
            view.key = std::to_string(record.item);
        else
            view.key.assign(text, record.key_bytes);
        view.metadata.clear();
        if (record.metadata_bytes != 0) view.metadata.assign(text + record.key_bytes, record.metadata_bytes);
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
    read_extents(head, header, payload);
}

// Reads each entry of the extents table once.
void SlabContents::read_extents(std::span<const std::byte> head, const SlabHeader& header,
                                std::span<const std::byte> payload) {
    const std::size_t words = extent_words_of(tensors);
    require((header.extents_offset != 0) == (words != 0), "extents table", header.extents_offset, words);
    if (words == 0) return;
    using Entry = std::uint64_t;
    const auto table = find_table<Entry>(head, "extents table", header.extents_offset,
                                         static_cast<std::uint32_t>(header.sample_count * words),
                                         kMaxSamplesPerSlab * kMaxTensorsPerSlab * kMaxDims);
    std::array<Entry, std::size_t{kMaxTensorsPerSlab} * kMaxDims> entry;
    std::size_t left = payload.size();
    for (std::uint32_t row = 0; row < header.sample_count; ++row) {
        const auto of_row = std::span(entry).first(words);
        copy_bytes(table.subspan(row * words * sizeof(Entry), words * sizeof(Entry)), of_row.data());
        std::size_t next = 0;
        for (TensorView& tensor : tensors) {
            if (!tensor.spec.varies()) continue;
            const std::size_t own = 1 + tensor.spec.varying_dims();
            check_sample(tensor, of_row.subspan(next, own), payload, left);
            next += own;
        }
    }
}

bool SlabContents::varies() const {
    return std::ranges::any_of(tensors, [](const TensorView& tensor) { return tensor.spec.varies(); });
}

std::uint64_t SlabContents::tensor_bytes() const {
    std::uint64_t bytes = 0;
    for (const TensorView& tensor : tensors) {
        bytes += tensor.bytes.size();
        for (const auto& sample : tensor.samples) bytes += sample.size();
    }
    return bytes;
}

std::string SlabContents::origin() const { return model.empty() ? "" : " of '" + model + "'"; }

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
    rows_ = batches_ = text_bytes_ = 0;
    varying_end_ = 0;
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
    header.texts_offset = static_cast<std::uint32_t>(layout_->texts_offset);
    header.extents_offset = static_cast<std::uint32_t>(layout_->extents_offset);
    header.transform = static_cast<std::uint32_t>(header_fields.transform);
    header.upsample_factor = header_fields.upsample_factor;
    put_text(header.model, header_fields.model);
    put_text(header.precision, header_fields.precision);
    put_text(header.memory_format, header_fields.memory_format);
    std::memcpy(slab_.data(), &header, sizeof header);
}

bool SlabWriter::add_batch(std::uint64_t batch, std::uint32_t first_row, std::span<const SampleEntry> samples) {
    std::size_t text_bytes = 0;
    for (const SampleEntry& sample : samples) text_bytes += sample.text_bytes();
    if (!has_room(samples.size(), text_bytes)) return false;

    const BatchRecord piece{batch, first_row, static_cast<std::uint32_t>(samples.size()), rows_, 0};
    std::memcpy(slab_.data() + layout_->batches_offset + batches_ * sizeof piece, &piece, sizeof piece);
    ++batches_;
    for (const SampleEntry& sample : samples) {
        expect(sample.key.size() <= kMaxKeyBytes && sample.metadata.size() <= kMaxMetadataBytes,
               "a sample's texts are within their limits");
        const SampleRecord record{sample.item,
                                  text_bytes_,
                                  static_cast<std::uint32_t>(sample.metadata.size()),
                                  static_cast<std::uint16_t>(sample.key.size()),
                                  static_cast<std::uint16_t>(sample.empty ? kSampleEmpty : 0),
                                  0};
        std::memcpy(slab_.data() + layout_->samples_offset + rows_ * sizeof record, &record, sizeof record);
        for (const std::string_view text : {sample.key, sample.metadata}) {
            if (text.empty()) continue;
            std::ranges::copy(std::as_bytes(std::span(text)), slab_.data() + layout_->texts_offset + text_bytes_);
            text_bytes_ += static_cast<std::uint32_t>(text.size());
        }
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
    header.text_bytes = text_bytes_;
    header.submitted_at_ns = submitted_at_ns;
    header.payload_bytes = 0;
    for (std::size_t i = 0; i < layout_->tensors.size(); ++i) {
        const TensorSpec spec = layout_->tensors[i].with_rows(rows_);
        const std::size_t bytes = spec.varies() ? 0 : rows_ * spec.row_bytes();
        TensorRecord record{};
        put_text(record.name, spec.name);
        record.dtype_code = spec.dtype.code;
        record.dtype_bits = spec.dtype.bits;
        record.dtype_lanes = spec.dtype.lanes;
        record.dims = static_cast<std::uint32_t>(spec.dims);
        record.shape = spec.shape;
        record.strides = spec.strides;
        record.offset = layout_->offsets[i];
        record.bytes = bytes;
        header.payload_bytes = std::max<std::uint64_t>(header.payload_bytes, record.offset + record.bytes);
        std::memcpy(slab_.data() + layout_->tensors_offset + i * sizeof record, &record, sizeof record);
    }
    if (layout_->varies()) header.payload_bytes = layout_->varying_offset + varying_end_;
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

bool SlabWriter::has_room(std::size_t samples, std::size_t text_bytes) const {
    return batches_ < layout_->batches && rows_ + samples <= static_cast<std::size_t>(layout_->rows) &&
           text_bytes_ + text_bytes <= layout_->text_capacity;
}

std::uint32_t SlabWriter::room_for(std::span<const SampleEntry> samples, std::span<const std::size_t> bytes) const {
    const std::uint32_t most = layout_->samples_with_room(varying_end_, bytes);
    std::size_t text_bytes = 0;
    std::uint32_t fitting = 0;
    while (fitting < most && has_room(fitting + 1, text_bytes += samples[fitting].text_bytes())) ++fitting;
    return fitting;
}

std::span<std::byte> SlabWriter::place_row(std::size_t tensor, std::uint32_t row, std::span<const std::int64_t> extents,
                                           bool follows) {
    expect(tensor < layout_->tensors.size() && layout_->tensors[tensor].varies() && row < rows_,
           "an added row of an output that varies");
    const std::size_t begin = follows ? varying_end_ : round_up(varying_end_, kSampleAlignment);
    expect(begin % alignment_of(layout_->tensors[tensor].dtype) == 0, "a row follows one of the same output");
    const auto fitting = layout_->tensors[tensor].sample_bytes(extents, layout_->varying_bytes);
    expect(fitting && (*fitting == 0 || begin + *fitting <= layout_->varying_bytes), "the slab has room for the row");
    const std::size_t bytes = *fitting;
    const std::size_t word = row * layout_->extent_words + layout_->extent_places[tensor];
    std::array<std::uint64_t, kMaxDims> entry{bytes == 0 ? 0 : layout_->varying_offset + begin};
    std::ranges::copy(extents, entry.begin() + 1);
    std::memcpy(slab_.data() + layout_->extents_offset + word * sizeof(std::uint64_t), entry.data(),
                (1 + extents.size()) * sizeof(std::uint64_t));
    if (bytes == 0) return {};
    varying_end_ = begin + bytes;
    return slab_.subspan(layout_->header_bytes + layout_->varying_offset + begin, bytes);
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
