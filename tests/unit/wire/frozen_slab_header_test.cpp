#include <gtest/gtest.h>

#include "common/wire/messages.hpp"
#include "common/wire/slab_header.hpp"
#include "tests/unit/wire/hex_dump.hpp"

// The bytes of version 2. When one of these fails, either the change is a mistake, or kSlabHeaderVersion
// rises with it.
namespace offramp {
namespace {

TEST(FrozenSlabHeader, Version) { EXPECT_EQ(kSlabHeaderVersion, 2U); }

TEST(FrozenSlabHeader, Header) {
    SlabHeader header{};
    header.magic = kSlabMagic;
    header.version = kSlabHeaderVersion;
    header.header_bytes = 0x00102000;
    header.run_nonce = 0x1112131415161718;
    header.generation = 0x2122232425262728;
    header.epoch = 0x31323334;
    header.slab = 0x41424344;
    header.payload_bytes = 0x5152535455565758;
    header.tensor_count = 0x61;
    header.batch_count = 0x62;
    header.sample_count = 0x63;
    header.text_bytes = 0x64;
    header.tensors_offset = 0x65;
    header.batches_offset = 0x66;
    header.samples_offset = 0x67;
    header.texts_offset = 0x68;
    header.transform = static_cast<std::uint32_t>(OutputTransform::ClassMap);
    header.upsample_factor = 0x0a0b0c0d;
    header.submitted_at_ns = 0x7172737475767778;
    header.filled_at_ns = 0x8182838485868788;
    put_text(header.model, "deeplabv3-resnet50");
    put_text(header.precision, "bf16");
    put_text(header.memory_format, "channels-last");
    for (std::uint8_t i = 0; i < 16; ++i) header.trace_id[i] = static_cast<std::uint8_t>(0xa0 + i);
    for (std::uint8_t i = 0; i < 8; ++i) header.span_id[i] = static_cast<std::uint8_t>(0xc0 + i);
    header.trace_flags = 0xd1d2d3d4d5d6d7d8;
    header.extents_offset = 0xe1e2e3e4;
    header.reserved.fill(0xee);
    EXPECT_EQ(hex_dump_of(header),
              "0000: 4f 46 46 52 53 4c 41 42 02 00 00 00 00 20 10 00\n"
              "0010: 18 17 16 15 14 13 12 11 28 27 26 25 24 23 22 21\n"
              "0020: 34 33 32 31 44 43 42 41 58 57 56 55 54 53 52 51\n"
              "0030: 61 00 00 00 62 00 00 00 63 00 00 00 64 00 00 00\n"
              "0040: 65 00 00 00 66 00 00 00 67 00 00 00 68 00 00 00\n"
              "0050: 02 00 00 00 0d 0c 0b 0a 78 77 76 75 74 73 72 71\n"
              "0060: 88 87 86 85 84 83 82 81 64 65 65 70 6c 61 62 76\n"
              "0070: 33 2d 72 65 73 6e 65 74 35 30 00 00 00 00 00 00\n"
              "00a0: 00 00 00 00 00 00 00 00 62 66 31 36 00 00 00 00\n"
              "00b0: 00 00 00 00 00 00 00 00 63 68 61 6e 6e 65 6c 73\n"
              "00c0: 2d 6c 61 73 74 00 00 00 a0 a1 a2 a3 a4 a5 a6 a7\n"
              "00d0: a8 a9 aa ab ac ad ae af c0 c1 c2 c3 c4 c5 c6 c7\n"
              "00e0: d8 d7 d6 d5 d4 d3 d2 d1 e4 e3 e2 e1 ee ee ee ee\n"
              "00f0: ee ee ee ee ee ee ee ee ee ee ee ee ee ee ee ee\n"
              "0100: ee ee ee ee ee ee ee ee ee ee ee ee ee ee ee ee\n"
              "0110: ee ee ee ee ee ee ee ee ee ee ee ee ee ee ee ee\n"
              "0120: ee ee ee ee ee ee ee ee ee ee ee ee ee ee ee ee\n"
              "0130: ee ee ee ee ee ee ee ee ee ee ee ee ee ee ee ee\n");
}

TEST(FrozenSlabHeader, Tensor) {
    TensorRecord record{};
    put_text(record.name, "logits");
    record.dtype_code = 4;
    record.dtype_bits = 16;
    record.dtype_lanes = 1;
    record.dims = 4;
    record.shape = {64, 21, 512, 513, 1, 2, 3, -4};
    record.strides = {5505024, 1, 10752, 21, 9, 8, 7, -6};
    record.offset = 0x200;
    record.bytes = 0x2a00000;
    EXPECT_EQ(hex_dump_of(record),
              "0000: 6c 6f 67 69 74 73 00 00 00 00 00 00 00 00 00 00\n"
              "0040: 04 10 01 00 04 00 00 00 40 00 00 00 00 00 00 00\n"
              "0050: 15 00 00 00 00 00 00 00 00 02 00 00 00 00 00 00\n"
              "0060: 01 02 00 00 00 00 00 00 01 00 00 00 00 00 00 00\n"
              "0070: 02 00 00 00 00 00 00 00 03 00 00 00 00 00 00 00\n"
              "0080: fc ff ff ff ff ff ff ff 00 00 54 00 00 00 00 00\n"
              "0090: 01 00 00 00 00 00 00 00 00 2a 00 00 00 00 00 00\n"
              "00a0: 15 00 00 00 00 00 00 00 09 00 00 00 00 00 00 00\n"
              "00b0: 08 00 00 00 00 00 00 00 07 00 00 00 00 00 00 00\n"
              "00c0: fa ff ff ff ff ff ff ff 00 02 00 00 00 00 00 00\n"
              "00d0: 00 00 a0 02 00 00 00 00\n");
}

TEST(FrozenSlabHeader, Batch) {
    const BatchRecord record{0x0102030405060708, 0x11121314, 0x21222324, 0x31323334, 0x41424344};
    EXPECT_EQ(hex_dump_of(record),
              "0000: 08 07 06 05 04 03 02 01 14 13 12 11 24 23 22 21\n"
              "0010: 34 33 32 31 44 43 42 41\n");
}

TEST(FrozenSlabHeader, Sample) {
    const SampleRecord record{0x0102030405060708, 0x11121314, 0x31323334, 0x2122, kSampleEmpty, 0x41424344};
    EXPECT_EQ(hex_dump_of(record),
              "0000: 08 07 06 05 04 03 02 01 14 13 12 11 34 33 32 31\n"
              "0010: 22 21 01 00 44 43 42 41\n");
}

TEST(FrozenSlabHeader, NumbersOfTransforms) {
    EXPECT_EQ(static_cast<int>(OutputTransform::None), 0);
    EXPECT_EQ(static_cast<int>(OutputTransform::Cast), 1);
    EXPECT_EQ(static_cast<int>(OutputTransform::ClassMap), 2);
    EXPECT_EQ(static_cast<int>(OutputTransform::LowRes), 3);
}

// The test itself: any changed byte shows.
TEST(FrozenSlabHeader, AnyChangedByteShowsInTheDump) {
    SlabHeader header{};
    const std::string before = hex_dump_of(header);
    const auto bytes = std::as_writable_bytes(std::span(&header, 1));
    for (std::byte& byte : bytes) {
        byte = std::byte{1};
        EXPECT_NE(hex_dump_of(header), before);
        byte = std::byte{0};
    }
}

}  // namespace
}  // namespace offramp
