#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

#include "common/base/error.hpp"
#include "common/wire/messages.hpp"
#include "common/wire/slab_view.hpp"
#include "common/wire/tensor_spec.hpp"
#include "tests/support/error_of.hpp"
#include "tests/unit/wire/any_tensor.hpp"
#include "tests/unit/wire/guarded_slab.hpp"

namespace offramp {
namespace {

constexpr std::size_t kMaxMetadata = 50;

// A piece of a batch as passed to the writer.
struct Piece {
    std::uint64_t batch;
    std::uint32_t first_row;
    std::vector<SampleView> samples;  // key: as expected by the reader
    std::vector<std::string> keys;    // as passed to the writer
};

Piece any_piece(std::size_t samples, std::size_t max_key_bytes) {
    Piece piece{*rc::gen::arbitrary<std::uint64_t>(), *rc::gen::inRange<std::uint32_t>(0, 1'000'000), {}, {}};
    for (std::size_t i = 0; i < samples; ++i) {
        SampleView sample{
            .item = *rc::gen::arbitrary<std::uint64_t>(), .batch = piece.batch, .empty = *rc::gen::arbitrary<bool>()};
        const auto key_bytes = *rc::gen::inRange<std::size_t>(0, max_key_bytes + 1);
        piece.keys.push_back(std::string(key_bytes, static_cast<char>('a' + i % 26)));
        sample.metadata =
            std::string(*rc::gen::inRange<std::size_t>(0, kMaxMetadata + 1), static_cast<char>('A' + i % 26));
        sample.key = key_bytes == 0 ? std::to_string(sample.item) : piece.keys.back();
        piece.samples.push_back(std::move(sample));
    }
    return piece;
}

bool add(SlabWriter& writer, const Piece& piece) {
    std::vector<SampleEntry> entries;
    for (std::size_t i = 0; i < piece.samples.size(); ++i)
        entries.push_back({piece.samples[i].item, piece.keys[i], piece.samples[i].empty, piece.samples[i].metadata});
    return writer.add_batch(piece.batch, piece.first_row, entries);
}

std::byte pattern(std::size_t tensor, std::size_t row, std::size_t i) {
    return static_cast<std::byte>(tensor * 101 + row * 31 + i * 7 + 1);
}

RC_GTEST_PROP(SlabRoundTrip, WhatIsWrittenIsRead, ()) {
    const auto rows = *rc::gen::inRange<std::int64_t>(1, 20);
    const auto batches = *rc::gen::inRange<std::uint32_t>(1, 6);
    const auto max_key_bytes = *rc::gen::inRange<std::size_t>(0, 40);
    std::vector<TensorSpec> outputs;
    for (std::size_t i = 0, count = *rc::gen::inRange<std::size_t>(1, 5); i < count; ++i)
        outputs.push_back(any_dense_tensor("out" + std::to_string(i), *rc::gen::inRange<std::int64_t>(1, 4)));
    const SlabLayout layout = SlabLayout::make(outputs, rows, batches, max_key_bytes + kMaxMetadata);
    const GuardedSlab memory(layout.slab_bytes);

    SlabWriter writer(memory.bytes(), layout);
    // A slab is reused many times: its earlier contents must not show.
    std::fill(memory.bytes().begin(), memory.bytes().end(), std::byte{0xaa});
    writer.begin({.run_nonce = 7,
                  .epoch = 2,
                  .slab = 3,
                  .generation = 9,
                  .transform = OutputTransform::ClassMap,
                  .model = "model",
                  .precision = "bf16",
                  .memory_format = "channels-last"});
    std::vector<Piece> written;
    std::size_t used = 0;
    for (int tries = *rc::gen::inRange(0, 8); tries > 0; --tries) {
        Piece piece = any_piece(*rc::gen::inRange<std::size_t>(0, 8), max_key_bytes);
        const bool room = written.size() < batches && used + piece.samples.size() <= static_cast<std::size_t>(rows);
        RC_ASSERT(add(writer, piece) == room);
        if (!room) continue;
        used += piece.samples.size();
        written.push_back(std::move(piece));
    }
    RC_ASSERT(writer.rows() == used);
    for (std::size_t t = 0; t < outputs.size(); ++t)
        for (std::uint32_t row = 0; row < used; ++row) {
            const auto bytes = writer.tensor_rows(t, row, 1);
            for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = pattern(t, row, i);
        }
    writer.finish(1234);
    writer.write_filled_at(5678);

    const auto contents = SlabContents::read(memory.bytes(), 7, {.epoch = 4, .slab = 3, .generation = 9, .attempt = 1});
    RC_ASSERT(contents.generation == 9U);
    RC_ASSERT(contents.epoch == 2U);
    RC_ASSERT(contents.transform == OutputTransform::ClassMap);
    RC_ASSERT(contents.upsample_factor == 1U);
    RC_ASSERT(contents.model == "model");
    RC_ASSERT(contents.precision == "bf16");
    RC_ASSERT(contents.memory_format == "channels-last");
    RC_ASSERT(contents.submitted_at_ns == 1234U);
    RC_ASSERT(contents.filled_at_ns == 5678U);
    RC_ASSERT(contents.batches.size() == written.size());
    RC_ASSERT(contents.samples.size() == used);
    std::size_t row = 0;
    for (std::size_t b = 0; b < written.size(); ++b) {
        RC_ASSERT(contents.batches[b].batch == written[b].batch);
        RC_ASSERT(contents.batches[b].first_row == written[b].first_row);
        RC_ASSERT(contents.batches[b].first_sample == row);
        RC_ASSERT(contents.batches[b].rows == written[b].samples.size());
        for (const SampleView& sample : written[b].samples) {
            RC_ASSERT(contents.samples[row].item == sample.item);
            RC_ASSERT(contents.samples[row].batch == sample.batch);
            RC_ASSERT(contents.samples[row].empty == sample.empty);
            RC_ASSERT(contents.samples[row].key == sample.key);
            RC_ASSERT(contents.samples[row].metadata == sample.metadata);
            RC_ASSERT(contents.samples[row].row == row);
            ++row;
        }
    }
    RC_ASSERT(contents.tensors.size() == outputs.size());
    for (std::size_t t = 0; t < outputs.size(); ++t) {
        const TensorView& tensor = contents.tensor(outputs[t].name);
        const TensorSpec expected = with_settled_strides(outputs[t].with_rows(static_cast<std::int64_t>(used)));
        RC_ASSERT(tensor.spec == expected);
        RC_ASSERT(tensor.bytes.size() == used * outputs[t].row_bytes());
        for (std::size_t r = 0; r < used; ++r)
            for (std::size_t i = 0; i < tensor.row(r).size(); ++i) RC_ASSERT(tensor.row(r)[i] == pattern(t, r, i));
    }
}

struct OneTensor : testing::Test {
    OneTensor() {
        writer.begin({.run_nonce = 7, .epoch = 2, .slab = 3, .generation = 9});
        const SampleEntry samples[] = {{10, "ab"}, {11, ""}};
        EXPECT_TRUE(writer.add_batch(5, 0, samples));
        writer.finish(1);
    }
    std::string refusal(std::uint64_t nonce, const SlabTicket& ticket) const {
        try {
            SlabContents::read(memory.bytes(), nonce, ticket);
        } catch (const ProtocolError& error) {
            return error.what();
        }
        return "taken";
    }

    static constexpr std::int64_t kShape[] = {1, 4};
    SlabLayout layout = SlabLayout::make({TensorSpec::contiguous("out", kFloat32, kShape)}, 4, 2, 8);
    GuardedSlab memory{layout.slab_bytes};
    SlabWriter writer{memory.bytes(), layout};
};

TEST_F(OneTensor, IsReadByItsTicketOnly) {
    EXPECT_EQ(refusal(7, {.epoch = 2, .slab = 3, .generation = 9}), "taken");
    EXPECT_EQ(refusal(7, {.epoch = 5, .slab = 3, .generation = 9}),
              "taken");  // a restarted producer's ticket
    EXPECT_EQ(refusal(7, {.epoch = 1, .slab = 3, .generation = 9}), "slab header: epoch is 2, expected 1");
    EXPECT_EQ(refusal(7, {.epoch = 2, .slab = 4, .generation = 9}), "slab header: slab is 3, expected 4");
    EXPECT_EQ(refusal(7, {.epoch = 2, .slab = 3, .generation = 8}), "slab header: generation is 9, expected 8");
    EXPECT_EQ(refusal(8, {.epoch = 2, .slab = 3, .generation = 9}), "slab header: run is 7, expected 8");
}

TEST_F(OneTensor, RefusesATooSmallSlab) {
    EXPECT_THROW(SlabContents::read(memory.bytes().first(100), 7, {.epoch = 2, .slab = 3, .generation = 9}),
                 ProtocolError);
    EXPECT_THROW(SlabContents::read(memory.bytes().first(kPageBytes), 7, {.epoch = 2, .slab = 3, .generation = 9}),
                 ProtocolError);
}

TEST_F(OneTensor, IsTheSameInAnotherSlabExceptItsNumber) {
    const auto before = SlabContents::read(memory.bytes(), 7, {.epoch = 2, .slab = 3, .generation = 9});
    restamp_slab(memory.bytes(), 4, 6, 12);
    const auto after = SlabContents::read(memory.bytes(), 7, {.epoch = 4, .slab = 6, .generation = 12});
    EXPECT_EQ(after.epoch, 4U);
    EXPECT_EQ(after.samples.size(), before.samples.size());
    EXPECT_EQ(after.samples.front().item, before.samples.front().item);
    EXPECT_EQ(after.payload_bytes, before.payload_bytes);
    EXPECT_THROW((void)SlabContents::read(memory.bytes(), 7, {.epoch = 2, .slab = 3, .generation = 9}), ProtocolError);
}

TEST_F(OneTensor, FindsTheOnlyTensorWithoutAName) {
    const auto contents = SlabContents::read(memory.bytes(), 7, {.epoch = 2, .slab = 3, .generation = 9});
    EXPECT_EQ(&contents.tensor(), &contents.tensor("out"));
    EXPECT_EQ(test::error_of<ProtocolError>([&] { contents.tensor("aux"); }),
              "the slab has no output 'aux'. It has: out float32 [2, 4]");
}

TEST_F(OneTensor, AddBatchWithoutRoomChangesNothing) {
    const std::vector<SampleEntry> three(3);
    EXPECT_FALSE(writer.add_batch(6, 0, three));  // 2 + 3 rows of 4
    const SampleEntry long_key[] = {{12, "0123456789012345678901234567890"}};
    EXPECT_FALSE(writer.add_batch(6, 0, long_key));  // 2 + 31 bytes of 32
    const SampleEntry long_metadata[] = {{12, "01", false, "{\"0123456789\": 0123456789012}"}};
    EXPECT_FALSE(writer.add_batch(6, 0, long_metadata));  // 2 + 31 bytes of 32
    const SampleEntry one[] = {{12, "012345678901234567890123456789"}};
    EXPECT_TRUE(writer.add_batch(6, 0, one));
    EXPECT_FALSE(writer.add_batch(7, 0, {}));  // a third batch of 2
    EXPECT_EQ(writer.rows(), 3U);
}

using OneTensorDeathTest = OneTensor;

TEST_F(OneTensorDeathTest, RowsOutsideOfTheSlabBreakTheContract) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EQ(writer.tensor_rows(0, 0, 4).size(), 64U);
    EXPECT_DEATH(writer.tensor_rows(0, 1, 4), "rows of an output of the layout");
    EXPECT_DEATH(writer.tensor_rows(0, 0xffffffff, 2),
                 "rows of an output of the layout");  // the sum wraps to 1
    EXPECT_DEATH(writer.tensor_rows(1, 0, 1), "rows of an output of the layout");
    const auto contents = SlabContents::read(memory.bytes(), 7, {.epoch = 2, .slab = 3, .generation = 9});
    EXPECT_DEATH(contents.tensor().row(2), "a row of the tensor");
}

}  // namespace
}  // namespace offramp
