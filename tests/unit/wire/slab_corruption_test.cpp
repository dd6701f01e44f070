#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <array>
#include <cstring>
#include <limits>

#include "common/base/error.hpp"
#include "common/wire/slab_view.hpp"
#include "tests/unit/wire/guarded_slab.hpp"

// For any header, reading is refused or harmless: no byte beyond the slab is read (the guard page and
// sanitizers would end this program), and an accepted slab is consistent.
namespace offramp {
namespace {

constexpr SlabTicket kTicket{.epoch = 2, .slab = 3, .generation = 9, .attempt = 1};
constexpr std::uint64_t kNonce = 7;

// Three tensors (one of them channels-last, one with samples of different shapes), two batches, keys, a hole: every
// kind of field is used.
struct Corruption : testing::Test {
    Corruption() {
        SlabWriter writer(memory.bytes(), layout);
        writer.begin({.run_nonce = kNonce,
                      .epoch = 2,
                      .slab = 3,
                      .generation = 9,
                      .model = "m",
                      .precision = "fp32",
                      .memory_format = "contiguous"});
        const SampleEntry first[] = {{100, "a/b"}, {101, "c", true}};
        const SampleEntry second[] = {{102, ""}};
        EXPECT_TRUE(writer.add_batch(50, 0, first) && writer.add_batch(51, 4, second));
        for (std::uint32_t row = 0; row < 3; ++row)
            writer.place_row(2, row, std::array<std::int64_t, 2>{row * 2, 3}, row == 2);
        writer.finish(1);
        used = layout.extents_offset + 3 * layout.extent_words * sizeof(std::uint64_t);
    }

    static SlabLayout make_layout() {
        const std::int64_t embedding[] = {1, 8};
        const TensorSpec masks{
            .name = "masks", .dtype = kUInt8, .dims = 4, .shape = {1, 3, 4, 5}, .strides = {60, 1, 15, 3}};
        const std::int64_t tokens[] = {1, kVarying, 2, kVarying};
        return SlabLayout::make({TensorSpec::contiguous("embedding", kFloat32, embedding), masks,
                                 TensorSpec::contiguous("tokens", kFloat16, tokens)},
                                4, 2, 8, 256);
    }

    // True if the slab is accepted; then everything that a processor may read has been read, and is
    // consistent.
    bool follow() const {
        SlabContents contents;
        try {
            contents = SlabContents::read(memory.bytes(), kNonce, kTicket);
        } catch (const ProtocolError& error) {
            EXPECT_TRUE(std::string(error.what()).starts_with("slab header: ")) << error.what();
            return false;
        }
        const auto slab = memory.bytes();
        unsigned sum = 0;
        for (const TensorView& tensor : contents.tensors) {
            EXPECT_EQ(tensor.spec.rows(), std::ssize(contents.samples));
            if (!tensor.spec.varies()) {
                EXPECT_EQ(tensor.bytes.size(), contents.samples.size() * tensor.spec.row_bytes());
                EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.bytes.data()) % kPayloadAlignment, 0U);
            }
            for (std::size_t row = 0; row < contents.samples.size(); ++row) {
                const auto bytes = tensor.row(row);
                EXPECT_EQ(bytes.size(), tensor.row_spec(row).row_bytes());
                EXPECT_GE(bytes.data(), slab.data() + sizeof(SlabHeader));
                EXPECT_LE(bytes.data() + bytes.size(), slab.data() + slab.size());
                for (const std::byte byte : bytes) sum += std::to_integer<unsigned>(byte);
            }
            sum += static_cast<unsigned>(tensor.spec.describe().size());
        }
        std::size_t rows = 0;
        for (const BatchRecord& batch : contents.batches) {
            EXPECT_EQ(batch.first_sample, rows);
            EXPECT_GE(batch.first_row + batch.rows, batch.first_row);
            rows += batch.rows;
        }
        EXPECT_EQ(rows, contents.samples.size());
        for (const SampleView& sample : contents.samples) {
            EXPECT_LE(sample.key.size(), kMaxKeyBytes);
            EXPECT_FALSE(sample.key.empty());
            sum += static_cast<unsigned>(sample.key.size());
        }
        EXPECT_LE(contents.transform, OutputTransform::LowRes);
        EXPECT_GE(contents.upsample_factor, 1U);
        volatile unsigned kept = sum;
        static_cast<void>(kept);
        return true;
    }

    // Overwrites a word of `width` bytes of the slab for one reading.
    bool follow_with(std::size_t offset, std::uint64_t value, std::size_t width) {
        const auto place = memory.bytes().subspan(offset, width);
        const std::vector<std::byte> before(place.begin(), place.end());
        for (std::size_t i = 0; i < width; ++i) place[i] = static_cast<std::byte>(value >> (8 * i));
        const bool accepted = follow();
        std::copy(before.begin(), before.end(), place.begin());
        return accepted;
    }

    SlabLayout layout = make_layout();
    GuardedSlab memory{layout.slab_bytes};
    std::size_t used = 0;
};

TEST_F(Corruption, AcceptsTheUntouchedSlab) { EXPECT_TRUE(follow()); }

TEST_F(Corruption, SurvivesAnyValueOfAnyByte) {
    int refused = 0;
    for (std::size_t offset = 0; offset < used; ++offset)
        for (const std::uint64_t value : {0x00, 0x01, 0x02, 0x07, 0x08, 0x10, 0x7f, 0x80, 0xfe, 0xff})
            refused += follow_with(offset, value, 1) ? 0 : 1;
    EXPECT_GT(refused, 0);
    EXPECT_TRUE(follow());
}

TEST_F(Corruption, SurvivesExtremeValuesOfAnyWord) {
    constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
    for (const std::size_t width : {std::size_t{2}, std::size_t{4}, std::size_t{8}})
        for (std::size_t offset = 0; offset + width <= used; offset += width)
            for (unsigned bit = 0; bit < width * 8; ++bit)
                for (const std::uint64_t value :
                     {std::uint64_t{1} << bit, (std::uint64_t{1} << bit) - 1, ~(std::uint64_t{1} << bit), kMost})
                    follow_with(offset, value, width);
    EXPECT_TRUE(follow());
}

// The fields that bound all others, each beyond the size of the slab: these must be refused, not merely
// survived.
TEST_F(Corruption, RefusesExtentsBeyondTheSlab) {
    const struct {
        const char* field;
        std::size_t offset;
        std::uint64_t value;
        std::size_t width;
    } cases[] = {
        {"magic", offsetof(SlabHeader, magic), kSlabMagic + 1, 8},
        {"version", offsetof(SlabHeader, version), kSlabHeaderVersion + 1, 4},
        {"header_bytes 0", offsetof(SlabHeader, header_bytes), 0, 4},
        {"header_bytes not whole pages", offsetof(SlabHeader, header_bytes), layout.header_bytes + 8, 4},
        {"header_bytes beyond", offsetof(SlabHeader, header_bytes), layout.slab_bytes + kPageBytes, 4},
        {"payload_bytes", offsetof(SlabHeader, payload_bytes), layout.slab_bytes - layout.header_bytes + 1, 8},
        {"payload_bytes too few", offsetof(SlabHeader, payload_bytes), 8, 8},
        {"tensor_count", offsetof(SlabHeader, tensor_count), kMaxTensorsPerSlab + 1, 4},
        {"batch_count", offsetof(SlabHeader, batch_count), 0, 4},
        {"sample_count", offsetof(SlabHeader, sample_count), 4, 4},
        {"sample_count beyond", offsetof(SlabHeader, sample_count), 0xffffffff, 4},
        {"text_bytes", offsetof(SlabHeader, text_bytes), 0xffffffff, 4},
        {"text_bytes too few", offsetof(SlabHeader, text_bytes), 3, 4},
        {"tensors_offset into the header", offsetof(SlabHeader, tensors_offset), 8, 4},
        {"tensors_offset beyond", offsetof(SlabHeader, tensors_offset), layout.header_bytes - 8, 4},
        {"batches_offset", offsetof(SlabHeader, batches_offset), 0xffffffff, 4},
        {"samples_offset", offsetof(SlabHeader, samples_offset), layout.header_bytes + 1, 4},
        {"texts_offset", offsetof(SlabHeader, texts_offset), layout.header_bytes - 1, 4},
        {"transform", offsetof(SlabHeader, transform), 4, 4},
        {"expansion 0", offsetof(SlabHeader, upsample_factor), 0, 4},
        {"upsample_factor", offsetof(SlabHeader, upsample_factor), kMaxUpsampleFactor + 1, 4},
        {"dims 0", layout.tensors_offset + offsetof(TensorRecord, dims), 0, 4},
        {"dims 9", layout.tensors_offset + offsetof(TensorRecord, dims), 9, 4},
        {"dtype bits", layout.tensors_offset + offsetof(TensorRecord, dtype_bits), 33, 1},
        {"dtype lanes", layout.tensors_offset + offsetof(TensorRecord, dtype_lanes), 2, 2},
        {"rows", layout.tensors_offset + offsetof(TensorRecord, shape), 4, 8},
        {"extent 0", layout.tensors_offset + offsetof(TensorRecord, shape) + 8, 0, 8},
        {"extent negative", layout.tensors_offset + offsetof(TensorRecord, shape) + 8, ~0ULL, 8},
        {"extent huge", layout.tensors_offset + offsetof(TensorRecord, shape) + 8, 1ULL << 62, 8},
        {"stride 0", layout.tensors_offset + offsetof(TensorRecord, strides), 0, 8},
        {"offset beyond", layout.tensors_offset + offsetof(TensorRecord, offset), ~511ULL, 8},
        {"offset not aligned", layout.tensors_offset + offsetof(TensorRecord, offset), 4, 8},
        {"bytes", layout.tensors_offset + offsetof(TensorRecord, bytes), 97, 8},
        {"batch's first_row wraps", layout.batches_offset + offsetof(BatchRecord, first_row), 0xffffffff, 4},
        {"batch's rows", layout.batches_offset + offsetof(BatchRecord, rows), 3, 4},
        {"batch's rows beyond", layout.batches_offset + offsetof(BatchRecord, rows), 0xffffffff, 4},
        {"batch's first_sample", layout.batches_offset + offsetof(BatchRecord, first_sample), 1, 4},
        {"extents_offset 0", offsetof(SlabHeader, extents_offset), 0, 4},
        {"extents_offset beyond", offsetof(SlabHeader, extents_offset), layout.header_bytes - 8, 4},
        {"sample's offset beyond", layout.extents_offset, layout.slab_bytes, 8},
        {"sample's offset wraps", layout.extents_offset + 24, ~1ULL, 8},
        {"sample's offset not aligned", layout.extents_offset, 1, 8},
        {"sample's extent beyond", layout.extents_offset + 32, 1000, 8},
        {"sample's extent huge", layout.extents_offset + 32, 1ULL << 62, 8},
        {"sample's extent negative", layout.extents_offset + 8, ~0ULL, 8},
        {"sample's text_offset", layout.samples_offset + offsetof(SampleRecord, text_offset), 0xffffffff, 4},
        {"sample's metadata_bytes", layout.samples_offset + offsetof(SampleRecord, metadata_bytes), 0xffffffff, 4},
        {"sample's metadata_bytes beyond", layout.samples_offset + offsetof(SampleRecord, metadata_bytes), 64, 4},
        {"sample's key_bytes", layout.samples_offset + offsetof(SampleRecord, key_bytes), 0xffff, 2},
    };
    for (const auto& one : cases) EXPECT_FALSE(follow_with(one.offset, one.value, one.width)) << one.field;
    EXPECT_TRUE(follow());
}

// Extents whose product overflows 64 bits, after a zero extent that hides them from a check of the product.
TEST_F(Corruption, RefusesExtentsThatOverflowBehindAZero) {
    TensorRecord record;
    const auto place = memory.bytes().subspan(layout.tensors_offset, sizeof record);
    std::memcpy(&record, place.data(), sizeof record);
    const std::int64_t huge = std::int64_t{1} << 62;
    record.dims = 4;
    record.shape = {3, 0, huge, huge};
    record.strides = {0, 0, 1, huge};
    record.bytes = 0;
    std::memcpy(place.data(), &record, sizeof record);
    EXPECT_FALSE(follow());
}

using CorruptionProperty = Corruption;

RC_GTEST_FIXTURE_PROP(CorruptionProperty, SeveralFieldsMayBeWrongAtOnce, ()) {
    for (int left = *rc::gen::inRange(2, 8); left > 0; --left) {
        const auto width = *rc::gen::element<std::size_t>(1, 2, 4, 8);
        const auto offset = *rc::gen::inRange<std::size_t>(0, used / width) * width;
        const auto value =
            *rc::gen::oneOf(rc::gen::inRange<std::uint64_t>(0, 5000), rc::gen::arbitrary<std::uint64_t>());
        std::memcpy(memory.bytes().data() + offset, &value, width);
    }
    follow();
}

}  // namespace
}  // namespace offramp
