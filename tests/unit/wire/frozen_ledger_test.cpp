#include <gtest/gtest.h>

#include "common/wire/ledger_layout.hpp"
#include "common/wire/messages.hpp"
#include "common/wire/run_progress.hpp"
#include "tests/unit/wire/hex_dump.hpp"

// The bytes of version 3. When one of these fails, either the change is a mistake, or kLedgerVersion rises
// with it.
namespace offramp {
namespace {

// A word whose bytes encode its position.
constexpr std::uint64_t word(std::uint64_t i) { return 0x0101010101010101 * i + i; }

TEST(FrozenLedger, Version) { EXPECT_EQ(kLedgerVersion, 3U); }

TEST(FrozenLedger, Header) {
    LedgerHeader header{};
    header.magic = kLedgerMagic;
    header.version = kLedgerVersion;
    header.epoch = 0x01020304;
    header.run_nonce = 0x1112131415161718;
    header.slab_count = 0x21222324;
    header.consumer_capacity = 0x31323334;
    header.slabs_per_span = 0x41424344;
    header.span_count = 0x51525354;
    header.slab_bytes = 0x6162636465666768;
    header.header_bytes = 0x7172737475767778;
    header.producer_pid = 0x8182838485868788;
    header.producer_start_time = 0x9192939495969798;
    put_text(header.run_id, "run-7");
    header.reserved.fill(0xee);
    EXPECT_EQ(hex_dump_of(header),
              "0000: 4f 46 46 4c 45 47 44 52 03 00 00 00 04 03 02 01\n"
              "0010: 18 17 16 15 14 13 12 11 24 23 22 21 34 33 32 31\n"
              "0020: 44 43 42 41 54 53 52 51 68 67 66 65 64 63 62 61\n"
              "0030: 78 77 76 75 74 73 72 71 88 87 86 85 84 83 82 81\n"
              "0040: 98 97 96 95 94 93 92 91 72 75 6e 2d 37 00 00 00\n"
              "0080: 00 00 00 00 00 00 00 00 ee ee ee ee ee ee ee ee\n"
              "0090: ee ee ee ee ee ee ee ee ee ee ee ee ee ee ee ee\n"
              "00a0: ee ee ee ee ee ee ee ee ee ee ee ee ee ee ee ee\n"
              "00b0: ee ee ee ee ee ee ee ee ee ee ee ee ee ee ee ee\n"
              "00c0: ee ee ee ee ee ee ee ee ee ee ee ee ee ee ee ee\n"
              "00d0: ee ee ee ee ee ee ee ee ee ee ee ee ee ee ee ee\n"
              "00e0: ee ee ee ee ee ee ee ee ee ee ee ee ee ee ee ee\n"
              "00f0: ee ee ee ee ee ee ee ee ee ee ee ee ee ee ee ee\n"
              "0100: ee ee ee ee ee ee ee ee ee ee ee ee ee ee ee ee\n"
              "0110: ee ee ee ee ee ee ee ee ee ee ee ee ee ee ee ee\n"
              "0120: ee ee ee ee ee ee ee ee ee ee ee ee ee ee ee ee\n"
              "0130: ee ee ee ee ee ee ee ee ee ee ee ee ee ee ee ee\n"
              "0140: ee ee ee ee ee ee ee ee ee ee ee ee ee ee ee ee\n"
              "0150: ee ee ee ee ee ee ee ee ee ee ee ee ee ee ee ee\n"
              "0160: ee ee ee ee ee ee ee ee ee ee ee ee ee ee ee ee\n"
              "0170: ee ee ee ee ee ee ee ee ee ee ee ee ee ee ee ee\n"
              "0180: ee ee ee ee ee ee ee ee ee ee ee ee ee ee ee ee\n"
              "0190: ee ee ee ee ee ee ee ee ee ee ee ee ee ee ee ee\n"
              "01a0: ee ee ee ee ee ee ee ee ee ee ee ee ee ee ee ee\n"
              "01b0: ee ee ee ee ee ee ee ee ee ee ee ee ee ee ee ee\n"
              "01c0: ee ee ee ee ee ee ee ee ee ee ee ee ee ee ee ee\n"
              "01d0: ee ee ee ee ee ee ee ee ee ee ee ee ee ee ee ee\n"
              "01e0: ee ee ee ee ee ee ee ee ee ee ee ee ee ee ee ee\n"
              "01f0: ee ee ee ee ee ee ee ee ee ee ee ee ee ee ee ee\n");
}

TEST(FrozenLedger, Consumer) {
    const LedgerConsumer consumer{word(1), word(2), word(3), word(4), word(5), {word(6), word(7), word(8)}};
    EXPECT_EQ(hex_dump_of(consumer),
              "0000: 02 01 01 01 01 01 01 01 04 02 02 02 02 02 02 02\n"
              "0010: 06 03 03 03 03 03 03 03 08 04 04 04 04 04 04 04\n"
              "0020: 0a 05 05 05 05 05 05 05 0c 06 06 06 06 06 06 06\n"
              "0030: 0e 07 07 07 07 07 07 07 10 08 08 08 08 08 08 08\n");
}

TEST(FrozenLedger, Entry) {
    const SlabEntry entry{word(1),
                          word(2),
                          {word(3), word(4), word(5), word(6), word(7), word(8), word(9), word(10)},
                          word(11),
                          {word(12), word(13), word(14), word(15), word(16)}};
    EXPECT_EQ(hex_dump_of(entry),
              "0000: 02 01 01 01 01 01 01 01 04 02 02 02 02 02 02 02\n"
              "0010: 06 03 03 03 03 03 03 03 08 04 04 04 04 04 04 04\n"
              "0020: 0a 05 05 05 05 05 05 05 0c 06 06 06 06 06 06 06\n"
              "0030: 0e 07 07 07 07 07 07 07 10 08 08 08 08 08 08 08\n"
              "0040: 12 09 09 09 09 09 09 09 14 0a 0a 0a 0a 0a 0a 0a\n"
              "0050: 16 0b 0b 0b 0b 0b 0b 0b 18 0c 0c 0c 0c 0c 0c 0c\n"
              "0060: 1a 0d 0d 0d 0d 0d 0d 0d 1c 0e 0e 0e 0e 0e 0e 0e\n"
              "0070: 1e 0f 0f 0f 0f 0f 0f 0f 20 10 10 10 10 10 10 10\n");
}

TEST(FrozenLedger, Heartbeat) {
    const HeartbeatRecord heartbeat{word(1), word(2), word(3), word(4), word(5), word(6), word(7), word(8)};
    EXPECT_EQ(hex_dump_of(heartbeat),
              "0000: 02 01 01 01 01 01 01 01 04 02 02 02 02 02 02 02\n"
              "0010: 06 03 03 03 03 03 03 03 08 04 04 04 04 04 04 04\n"
              "0020: 0a 05 05 05 05 05 05 05 0c 06 06 06 06 06 06 06\n"
              "0030: 0e 07 07 07 07 07 07 07 10 08 08 08 08 08 08 08\n");
}

TEST(FrozenLedger, NumbersOfStates) {
    EXPECT_EQ(static_cast<int>(SlabState::Free), 0);
    EXPECT_EQ(static_cast<int>(SlabState::Filling), 1);
    EXPECT_EQ(static_cast<int>(SlabState::Ready), 2);
    EXPECT_EQ(static_cast<int>(SlabState::Leased), 3);
    EXPECT_EQ(static_cast<int>(SlabState::Retired), 4);
    EXPECT_EQ(static_cast<int>(SlabState::DeadLettered), 5);
}

TEST(FrozenLedger, ProgressRecord) {
    const ProgressRecord record{.sequence = word(1),
                                .step = word(2),
                                .slab = word(3),
                                .generation = word(4),
                                .items_through = word(5),
                                .skipped = word(6),
                                .published = {word(7), word(8), word(9), word(10)},
                                .completed = {word(11), word(12), word(13), word(14)},
                                .dead_letters = {word(15), word(16), word(17), word(18)},
                                .dropped = word(19),
                                .dropped_waiting = {word(20), word(21), word(22), word(23)},
                                .first_dead_letters = {word(24), word(25), word(26), word(27)},
                                .first_dropped = {word(28), word(29), word(30), word(31)},
                                .step_items_through = word(32)};
    const auto* words = reinterpret_cast<const std::uint64_t*>(&record);
    for (std::size_t i = 0; i < sizeof record / sizeof *words; ++i) EXPECT_EQ(words[i], word(i + 1)) << i;
}

TEST(FrozenLedger, Progress) {
    RunProgress progress{.began_ns = word(1),
                         .items = word(2),
                         .keys_hash = word(3),
                         .producers = word(4),
                         .current = word(5),
                         .done_before = word(6)};
    progress.records[0].sequence = word(65);
    progress.records[1].sequence = word(97);
    const auto* words = reinterpret_cast<const std::uint64_t*>(&progress);
    for (const std::size_t i : {0, 1, 2, 3, 4, 5, 64, 96}) EXPECT_EQ(words[i], word(i + 1)) << i;
    EXPECT_EQ(static_cast<std::uint64_t>(CountedStep::Publish), 1U);
    EXPECT_EQ(static_cast<std::uint64_t>(CountedStep::Complete), 2U);
    EXPECT_EQ(static_cast<std::uint64_t>(CountedStep::DeadLetter), 3U);
    EXPECT_EQ(static_cast<std::uint64_t>(CountedStep::Drop), 4U);
}

}  // namespace
}  // namespace offramp
