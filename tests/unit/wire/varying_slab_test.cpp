#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>

#include "common/wire/messages.hpp"
#include "common/wire/slab_view.hpp"
#include "tests/unit/wire/any_tensor.hpp"
#include "tests/unit/wire/guarded_slab.hpp"

namespace offramp {
namespace {

constexpr SlabTicket kTicket{.epoch = 1, .slab = 3, .generation = 9, .attempt = 1};

// A tensor of 2 to 4 dimensions, at least one of which varies.
TensorSpec any_varying_tensor(const std::string& name) {
    TensorSpec spec{.name = name,
                    .dtype = *rc::gen::element(kUInt8, kFloat32, kBFloat16, DType{5, 128, 1}, DType{1, 24, 1}),
                    .dims = *rc::gen::inRange<std::size_t>(2, 5)};
    spec.shape[0] = 1;
    for (std::size_t d = 1; d < spec.dims; ++d)
        spec.shape[d] = *rc::gen::arbitrary<bool>() ? kVarying : *rc::gen::inRange<std::int64_t>(1, 5);
    spec.shape[*rc::gen::inRange<std::size_t>(1, spec.dims)] = kVarying;
    return spec;
}

std::byte pattern(std::size_t tensor, std::size_t row, std::size_t i) {
    return static_cast<std::byte>(tensor * 101 + row * 31 + i * 7 + 1);
}

RC_GTEST_PROP(VaryingSlab, EachSampleIsReadWithItsShapeAndBytes, ()) {
    std::vector<TensorSpec> outputs;
    for (std::size_t i = 0, count = *rc::gen::inRange<std::size_t>(1, 5); i < count; ++i) {
        const std::string name = "out" + std::to_string(i);
        const bool varies = i == 0 || *rc::gen::arbitrary<bool>();
        outputs.push_back(varies ? any_varying_tensor(name) : any_dense_tensor(name, 1));
    }
    const auto rows = *rc::gen::inRange<std::uint32_t>(0, 9);
    const SlabLayout layout = SlabLayout::make(outputs, 8, 1, 8, 1 << 20);
    const GuardedSlab memory(layout.slab_bytes);
    std::fill(memory.bytes().begin(), memory.bytes().end(), std::byte{0xaa});
    SlabWriter writer(memory.bytes(), layout);
    writer.begin({.run_nonce = 7, .epoch = 1, .slab = 3, .generation = 9});
    RC_ASSERT(writer.add_batch(5, 0, std::vector<SampleEntry>(rows)));

    std::vector<std::vector<std::vector<std::int64_t>>> extents(outputs.size());
    for (std::size_t t = 0; t < outputs.size(); ++t) {
        bool may_follow = false;
        for (std::uint32_t row = 0; row < rows; ++row) {
            std::span<std::byte> bytes;
            if (outputs[t].varies()) {
                auto& own = extents[t].emplace_back();
                for (std::size_t i = 0; i < outputs[t].varying_dims(); ++i)
                    own.push_back(*rc::gen::inRange<std::int64_t>(0, 6));
                bytes = writer.place_row(t, row, own, may_follow && *rc::gen::arbitrary<bool>());
                may_follow = may_follow || !bytes.empty();
            } else {
                bytes = writer.tensor_rows(t, row, 1);
            }
            for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = pattern(t, row, i);
        }
    }
    writer.finish(1);

    const SlabContents contents = SlabContents::read(memory.bytes(), 7, kTicket);
    RC_ASSERT(contents.varies());
    std::uint64_t bytes = 0;
    for (std::size_t t = 0; t < outputs.size(); ++t) {
        const TensorView& tensor = contents.tensor(outputs[t].name);
        RC_ASSERT(tensor.spec.varies() == outputs[t].varies());
        for (std::uint32_t row = 0; row < rows; ++row) {
            const TensorSpec spec = tensor.row_spec(row);
            const TensorSpec expected = outputs[t].varies() ? outputs[t].of_sample(extents[t][row])
                                                            : with_settled_strides(outputs[t].with_rows(1));
            RC_ASSERT(spec == expected);
            RC_ASSERT(tensor.row(row).size() == spec.row_bytes());
            bytes += spec.row_bytes();
            for (std::size_t i = 0; i < tensor.row(row).size(); ++i)
                RC_ASSERT(tensor.row(row)[i] == pattern(t, row, i));
        }
    }
    RC_ASSERT(contents.tensor_bytes() == bytes);
}

// 128 bytes, 3 rows, keys of 4 bytes.
struct Room : testing::Test {
    Room() { writer.begin({}); }
    std::uint32_t room_for(std::size_t samples, std::size_t bytes) const {
        return writer.room_for(std::vector<SampleEntry>(samples), std::vector<std::size_t>(samples, bytes));
    }

    static constexpr std::array<std::int64_t, 2> kShape{1, kVarying};
    SlabLayout layout = SlabLayout::make({TensorSpec::contiguous("t", kUInt8, kShape)}, 3, 2, 4, 128);
    GuardedSlab memory{layout.slab_bytes};
    SlabWriter writer{memory.bytes(), layout};
};

TEST_F(Room, IsBoundedByRowsAndBytes) {
    EXPECT_EQ(room_for(5, 0), 3U);
    EXPECT_EQ(room_for(2, 64), 2U);
    EXPECT_EQ(room_for(3, 64), 2U);
    EXPECT_EQ(room_for(3, 128), 1U);
    EXPECT_EQ(room_for(3, 192), 0U);
}

TEST_F(Room, ShrinksWithEachRow) {
    ASSERT_TRUE(writer.add_batch(0, 0, std::vector<SampleEntry>(1)));
    EXPECT_EQ(writer.place_row(0, 0, std::array<std::int64_t, 1>{1}, false).size(), 1U);
    EXPECT_EQ(room_for(3, 64), 1U);  // the next sample begins at 64
    ASSERT_TRUE(writer.add_batch(1, 0, std::vector<SampleEntry>(1)));
    EXPECT_TRUE(writer.place_row(0, 1, std::array<std::int64_t, 1>{0}, false).empty());
    EXPECT_EQ(room_for(1, 64), 0U) << "both batch entries are used";
}

TEST_F(Room, LetsAWriterNotExceedIt) {
    ASSERT_TRUE(writer.add_batch(0, 0, std::vector<SampleEntry>(1)));
    EXPECT_DEATH(writer.place_row(0, 0, std::array<std::int64_t, 1>{129}, false), "room for the row");
}

}  // namespace
}  // namespace offramp
