#include "producer/runner/ingest/length_packing.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "common/base/error.hpp"

namespace offramp {
namespace {

std::span<const std::int32_t> as_numbers(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const std::int32_t*>(bytes.data()), bytes.size() / sizeof(std::int32_t)};
}

}  // namespace

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

std::uint64_t tokens_of_batch(std::span<const std::byte> staged, std::size_t row_bytes) {
    std::uint64_t tokens = 0;
    for (std::size_t at = 0; at < staged.size(); at += row_bytes)
        tokens += tokens_of_row(as_numbers(staged.subspan(at, row_bytes)));
    return tokens;
}

}  // namespace offramp
