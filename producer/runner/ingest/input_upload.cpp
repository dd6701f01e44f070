#include "producer/runner/ingest/input_upload.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "common/base/error.hpp"
#include "producer/runner/kernels/kernels.hpp"
#include "producer/runner/sources/normal_noise.hpp"

namespace offramp {
namespace {

std::size_t rows_of(const ModelInput& input) { return static_cast<std::size_t>(input.tensor.rows()); }

// Ids of 0, which every vocabulary has, all unmasked: texts of the greatest length.
void fill_tokens(std::span<std::int32_t> row) {
    std::ranges::fill(row.first(row.size() / 2), 0);
    std::ranges::fill(row.last(row.size() / 2), 1);
}

std::span<const std::int32_t> as_numbers(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const std::int32_t*>(bytes.data()), bytes.size() / sizeof(std::int32_t)};
}

}  // namespace

InputUpload::InputUpload(Device& device, const ModelInput& input, RowKind rows) : input_(input), rows_(rows) {
    const TensorSpec& tensor = input.tensor;
    expect(input.kind != InputKind::None && rows != RowKind::Nothing, "there is something to upload");
    if (rows == RowKind::Arrays || input.kind == InputKind::Arrays) {
        if (rows != RowKind::Arrays)
            throw ConfigError("the model takes " + describe_parts(input.parts) + ", but the source gives no arrays",
                              kGiveArrays);
        expect(input.kind == InputKind::Arrays && tensor.dense_rows(), "arrays go where arrays are taken");
        return;
    }
    if (rows == RowKind::Tokens || tensor.dtype == kInt32) {
        if (rows != RowKind::Tokens)
            throw ConfigError("the model takes tokens, " + tensor.describe() + ", but the source gives none",
                              "Use --source text, with --input FILE; or --synthetic-on device");
        expect(tensor.dtype == kInt32 && tensor.dense_rows(), "tokens go where tokens are taken");
        return;
    }
    if (!tensor.dense_rows() || (tensor.dtype != kFloat32 && tensor.dtype != kBFloat16))
        throw ConfigError("model input " + tensor.describe() + " cannot be uploaded",
                          "Supported: dense float32 and bfloat16 inputs, and int32 tokens");
    if (rows == RowKind::Pixels) {
        if (input.kind != InputKind::Image || tensor.dims != 4 || tensor.shape[1] != 3)
            throw ConfigError("the source gives pictures, but the model takes " + tensor.describe(),
                              "Use --source synthetic");
        between_ = device.allocate(staged_row_bytes() * rows_of(input), "a batch of pixels");
    } else if (tensor.dtype == kBFloat16) {
        between_ = device.allocate(staged_row_bytes() * rows_of(input), "a batch of float32 input");
    }
}

std::size_t InputUpload::staged_row_bytes(const TensorSpec& batch) const {
    const std::size_t numbers = batch.elements() / static_cast<std::size_t>(batch.rows());
    if (rows_ == RowKind::Pixels) return numbers;
    return rows_ == RowKind::Float32 ? numbers * sizeof(float) : batch.row_bytes();
}

std::size_t InputUpload::input_bytes() const { return input_.tensor.row_bytes() * rows_of(input_); }

void InputUpload::submit(Stream& copies, const std::byte* staged, std::byte* to, Event& uploaded,
                         const TensorSpec& batch, std::span<const EncodedPicture> decoded) {
    std::byte* const target = between_ ? between_->data() : to;
    const std::size_t row_bytes = staged_row_bytes(batch);
    const auto rows = static_cast<std::size_t>(batch.rows());
    const auto is_on_device = [&](std::size_t row) { return row < decoded.size() && !decoded[row].file.empty(); };
    for (std::size_t row = 0; row < rows;) {
        std::size_t end = row;
        while (end < rows && !is_on_device(end)) ++end;
        if (end > row)
            copies.copy_to_device(target + row * row_bytes, staged + row * row_bytes, (end - row) * row_bytes);
        row = end + 1;
    }
    copies.record(uploaded);
    if (rows_ == RowKind::Pixels) {
        kernels::PixelInput pixels{.pixels = reinterpret_cast<const std::uint8_t*>(target),
                                   .rows = batch.shape[0],
                                   .height = batch.shape[2],
                                   .width = batch.shape[3]};
        std::copy(input_.mean.begin(), input_.mean.end(), pixels.mean);
        std::copy(input_.std.begin(), input_.std.end(), pixels.std);
        kernels::normalize(copies, to, batch, pixels);
    } else if (between_) {
        kernels::cast(copies, to, kBFloat16, target, batch.elements());
    }
}

void InputUpload::submit_as_it_is(Stream& copies, std::span<const std::byte> bytes, std::byte* to, Event& uploaded) {
    copies.copy_to_device(to, bytes.data(), bytes.size());
    copies.record(uploaded);
}

std::unique_ptr<DeviceBuffer> make_resident_input(Device& device, const ModelInput& input, std::uint64_t seed) {
    const bool arrays = input.kind == InputKind::Arrays;
    const bool tokens = input.tensor.dtype == kInt32;
    InputUpload upload(device, input, arrays ? RowKind::Arrays : tokens ? RowKind::Tokens : RowKind::Float32);
    const std::unique_ptr<Stream> copies = device.make_stream("resident input");
    const std::unique_ptr<Event> uploaded = device.make_event();
    const std::size_t row_bytes = upload.staged_row_bytes();
    const auto staged = device.allocate_pinned_host(row_bytes * rows_of(input), "the resident batch's staging");
    const NormalNoise noise(seed);
    for (std::size_t row = 0; row < rows_of(input); ++row) {
        std::byte* const to = staged->data() + row * row_bytes;
        if (arrays)
            fill_synthetic_row(noise, row, input.parts, {to, row_bytes});
        else if (tokens)
            fill_tokens({reinterpret_cast<std::int32_t*>(to), row_bytes / sizeof(std::int32_t)});
        else
            noise.fill(row, {reinterpret_cast<float*>(to), row_bytes / sizeof(float)});
    }
    std::unique_ptr<DeviceBuffer> resident = device.allocate(upload.input_bytes(), "the resident batch");
    upload.submit(*copies, staged->data(), resident->data(), *uploaded);
    copies->synchronize();
    return resident;
}

LengthPacking::LengthPacking(Device& device, const ModelInput& input)
    : batch_(static_cast<std::uint32_t>(input.tensor.rows())),
      group_rows_(input.group_rows),
      longest_(static_cast<std::uint32_t>(input.tensor.shape[2])),
      memory_(device.allocate_pinned_host(LengthGroups::most_bytes(batch_, group_rows_, longest_),
                                          "a batch of texts by length")) {
    expect(input.tensor.dtype == kInt32 && input.tensor.dims == 3 && input.tensor.shape[1] == 2,
           "rows of tokens, ids and mask, have lengths");
}

LengthGroups LengthPacking::pack(std::span<const std::byte> staged, std::size_t items) {
    const auto numbers = as_numbers(staged);
    const std::size_t row_numbers = 2 * std::size_t{longest_};
    expect(numbers.size() == batch_ * row_numbers, "a full batch is packed");
    std::vector<std::uint32_t> lengths(batch_);
    for (std::size_t row = 0; row < batch_; ++row)
        lengths[row] = tokens_of_row(numbers.subspan(row * row_numbers, row_numbers));
    LengthGroups groups(lengths, items, group_rows_, longest_);
    std::memcpy(memory_->data(), groups.places.data(), groups.places.size() * sizeof(std::int64_t));
    for (std::size_t row = 0; row < batch_; ++row) {
        const auto place = static_cast<std::size_t>(groups.places[row]);
        if (place / group_rows_ >= groups.groups.size()) continue;
        const LengthGroups::Group& group = groups.groups[place / group_rows_];
        const std::size_t row_bytes = group.length * sizeof(std::int32_t);
        std::byte* const to = memory_->data() + group.offset + place % group_rows_ * 2 * row_bytes;
        const std::int32_t* const from = numbers.data() + row * row_numbers;
        std::memcpy(to, from, row_bytes);
        std::memcpy(to + row_bytes, from + longest_, row_bytes);
    }
    return groups;
}

std::vector<TokenRows> texts_of_batch(std::span<const std::byte> staged, std::size_t row_bytes) {
    std::vector<std::uint32_t> lengths;
    for (std::size_t at = 0; at < staged.size(); at += row_bytes)
        lengths.push_back(tokens_of_row(as_numbers(staged.subspan(at, row_bytes))));
    return token_rows(lengths, static_cast<std::uint32_t>(row_bytes / (2 * sizeof(std::int32_t))));
}

}  // namespace offramp
