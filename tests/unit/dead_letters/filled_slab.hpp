#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/wire/slab_view.hpp"

namespace offramp {

// A slab as the egress leaves it: rows 2 and 3 of batch 7, with a channels-last tensor, one of 3 bytes a sample that
// misaligns the next one in a packed file, one of a type that .safetensors does not have, and, on request, one whose
// samples differ in shape, [2, 3] and [1, 3].
class FilledSlab {
  public:
    static constexpr std::uint64_t kNonce = 77;

    enum class Shapes { Equal, Different };
    explicit FilledSlab(std::uint32_t slab = 5, std::uint64_t generation = 9, Shapes shapes = Shapes::Equal) {
        TensorSpec scores{
            .name = "scores", .dtype = kFloat16, .dims = 4, .shape = {2, 3, 2, 4}, .strides = {24, 1, 12, 3}};
        const std::array<std::int64_t, 2> three{2, 3};
        const std::array<std::int64_t, 2> pair{2, 2};
        const std::array<std::int64_t, 3> tokens{2, kVarying, 3};
        std::vector<TensorSpec> tensors{TensorSpec::contiguous("bytes", kUInt8, three), scores,
                                        TensorSpec::contiguous("phase", DType{5, 64, 1}, pair)};
        if (shapes == Shapes::Different) tensors.push_back(TensorSpec::contiguous("tokens", kInt32, tokens));
        const auto layout = SlabLayout::make(tensors, 2, 1, 16, shapes == Shapes::Different ? 128 : 0);
        memory.resize(layout.slab_bytes);
        SlabWriter writer(memory, layout);
        writer.begin({.run_nonce = kNonce,
                      .epoch = 1,
                      .slab = slab,
                      .generation = generation,
                      .transform = OutputTransform::Cast,
                      .model = "made-up",
                      .precision = "fp32",
                      .memory_format = "channels-last"});
        const std::array<SampleEntry, 2> samples{SampleEntry{.item = 30, .key = "photos/cat"},
                                                 SampleEntry{.item = 31, .empty = true}};
        writer.add_batch(7, 2, samples);
        for (std::size_t tensor = 0; tensor < 3; ++tensor) {
            std::uint8_t value = static_cast<std::uint8_t>(tensor * 50);
            for (std::byte& byte : writer.tensor_rows(tensor, 0, 2)) byte = std::byte{++value};
        }
        for (std::int64_t row = 0; row < 2 && layout.varies(); ++row) {
            std::uint8_t value = static_cast<std::uint8_t>(row * 100);
            const std::array<std::int64_t, 1> length{2 - row};
            for (std::byte& byte : writer.place_row(3, static_cast<std::uint32_t>(row), length, false))
                byte = std::byte{++value};
        }
        writer.finish(11);
        writer.write_filled_at(12);
        ticket = {.epoch = 1, .slab = slab, .generation = generation};
    }
    SlabContents contents() const { return SlabContents::read(memory, kNonce, ticket); }

    std::vector<std::byte> memory;
    SlabTicket ticket;
};

}  // namespace offramp
