#include <gtest/gtest.h>

#include "common/wire/messages.hpp"
#include "tests/unit/wire/hex_dump.hpp"

// The bytes of version 1. When one of these fails, either the change is a mistake, or kMessageVersion rises
// with it.
namespace offramp {
namespace {

constexpr std::uint64_t kFrozenRun = 0xb1b2b3b4b5b6b7b8;
constexpr std::uint64_t kSession = 0x5152535455565758;
constexpr SlabTicket kTicket{0x01020304, 0x11121314, 0x2122232425262728, 0x31323334, 0x41424344};
constexpr SlabTicket kTickets[] = {kTicket, kTicket};
constexpr ReleaseRecord kReleases[] = {{kTicket, static_cast<std::uint32_t>(ReleaseKind::Completed), 0x61626364},
                                       {kTicket, static_cast<std::uint32_t>(ReleaseKind::Returned), 0x61626364}};

template <std::size_t N>
std::array<char, N> text(std::string_view value) {
    std::array<char, N> field{};
    put_text(field, value);
    return field;
}

TEST(FrozenMessages, Version) { EXPECT_EQ(kMessageVersion, 1U); }

TEST(FrozenMessages, Hello) {
    EXPECT_EQ(hex_dump(encode(kFrozenRun,
                              Hello{0x0102030405060708, 0x1112131415161718, 0x2122232425262728, 0x5152535455565758,
                                    0x31323334, 0x41424344, text<16>("0.1.0")},
                              kTickets)),
              "0000: 4f 46 46 4d 01 00 01 00 80 00 00 00 02 00 00 00\n"
              "0010: b8 b7 b6 b5 b4 b3 b2 b1 08 07 06 05 04 03 02 01\n"
              "0020: 18 17 16 15 14 13 12 11 28 27 26 25 24 23 22 21\n"
              "0030: 58 57 56 55 54 53 52 51 34 33 32 31 44 43 42 41\n"
              "0040: 30 2e 31 2e 30 00 00 00 00 00 00 00 00 00 00 00\n"
              "0050: 04 03 02 01 14 13 12 11 28 27 26 25 24 23 22 21\n"
              "0060: 34 33 32 31 44 43 42 41 04 03 02 01 14 13 12 11\n"
              "0070: 28 27 26 25 24 23 22 21 34 33 32 31 44 43 42 41\n");
}

TEST(FrozenMessages, Challenge) {
    EXPECT_EQ(hex_dump(encode(kFrozenRun, Challenge{kSession})),
              "0000: 4f 46 46 4d 01 00 02 00 20 00 00 00 00 00 00 00\n"
              "0010: b8 b7 b6 b5 b4 b3 b2 b1 58 57 56 55 54 53 52 51\n");
}

TEST(FrozenMessages, Answer) {
    EXPECT_EQ(hex_dump(encode(kFrozenRun, Answer{kSession})),
              "0000: 4f 46 46 4d 01 00 03 00 20 00 00 00 00 00 00 00\n"
              "0010: b8 b7 b6 b5 b4 b3 b2 b1 58 57 56 55 54 53 52 51\n");
}

TEST(FrozenMessages, Welcome) {
    EXPECT_EQ(hex_dump(encode(kFrozenRun, Welcome{kSession, 0x01020304, 0x11121314})),
              "0000: 4f 46 46 4d 01 00 04 00 28 00 00 00 00 00 00 00\n"
              "0010: b8 b7 b6 b5 b4 b3 b2 b1 58 57 56 55 54 53 52 51\n"
              "0020: 04 03 02 01 14 13 12 11\n");
}

TEST(FrozenMessages, Refused) {
    EXPECT_EQ(hex_dump(encode(kFrozenRun, Refused{static_cast<std::uint32_t>(RefusalReason::Full), 0x01020304,
                                                  text<240>("no place")})),
              "0000: 4f 46 46 4d 01 00 05 00 10 01 00 00 00 00 00 00\n"
              "0010: b8 b7 b6 b5 b4 b3 b2 b1 05 00 00 00 04 03 02 01\n"
              "0020: 6e 6f 20 70 6c 61 63 65 00 00 00 00 00 00 00 00\n");
}

TEST(FrozenMessages, Credit) {
    EXPECT_EQ(hex_dump(encode(kFrozenRun, Credit{kSession, 0x01020304, 0x11121314})),
              "0000: 4f 46 46 4d 01 00 06 00 28 00 00 00 00 00 00 00\n"
              "0010: b8 b7 b6 b5 b4 b3 b2 b1 58 57 56 55 54 53 52 51\n"
              "0020: 04 03 02 01 14 13 12 11\n");
}

TEST(FrozenMessages, Tickets) {
    EXPECT_EQ(hex_dump(encode(kFrozenRun, Tickets{kSession, 0x0102030405060708}, kTickets)),
              "0000: 4f 46 46 4d 01 00 07 00 58 00 00 00 02 00 00 00\n"
              "0010: b8 b7 b6 b5 b4 b3 b2 b1 58 57 56 55 54 53 52 51\n"
              "0020: 08 07 06 05 04 03 02 01 04 03 02 01 14 13 12 11\n"
              "0030: 28 27 26 25 24 23 22 21 34 33 32 31 44 43 42 41\n"
              "0040: 04 03 02 01 14 13 12 11 28 27 26 25 24 23 22 21\n"
              "0050: 34 33 32 31 44 43 42 41\n");
}

TEST(FrozenMessages, Releases) {
    EXPECT_EQ(hex_dump(encode(kFrozenRun, Releases{kSession, 0x0102030405060708}, kReleases)),
              "0000: 4f 46 46 4d 01 00 08 00 68 00 00 00 02 00 00 00\n"
              "0010: b8 b7 b6 b5 b4 b3 b2 b1 58 57 56 55 54 53 52 51\n"
              "0020: 08 07 06 05 04 03 02 01 04 03 02 01 14 13 12 11\n"
              "0030: 28 27 26 25 24 23 22 21 34 33 32 31 44 43 42 41\n"
              "0040: 01 00 00 00 64 63 62 61 04 03 02 01 14 13 12 11\n"
              "0050: 28 27 26 25 24 23 22 21 34 33 32 31 44 43 42 41\n"
              "0060: 02 00 00 00 64 63 62 61\n");
}

TEST(FrozenMessages, ReleaseAck) {
    EXPECT_EQ(hex_dump(encode(kFrozenRun, ReleaseAck{kSession, 0x0102030405060708})),
              "0000: 4f 46 46 4d 01 00 09 00 28 00 00 00 00 00 00 00\n"
              "0010: b8 b7 b6 b5 b4 b3 b2 b1 58 57 56 55 54 53 52 51\n"
              "0020: 08 07 06 05 04 03 02 01\n");
}

TEST(FrozenMessages, Drain) {
    EXPECT_EQ(
        hex_dump(encode(kFrozenRun, Drain{kSession, static_cast<std::uint32_t>(DrainReason::Aborted), 0x01020304})),
        "0000: 4f 46 46 4d 01 00 0a 00 28 00 00 00 00 00 00 00\n"
        "0010: b8 b7 b6 b5 b4 b3 b2 b1 58 57 56 55 54 53 52 51\n"
        "0020: 03 00 00 00 04 03 02 01\n");
}

TEST(FrozenMessages, Failure) {
    const std::string bytes =
        hex_dump(encode(kFrozenRun, Failure{kSession, 0x0102030405060708, text<2032>("ValueError: no")}));
    EXPECT_EQ(bytes.substr(0, bytes.find("0040:")),
              "0000: 4f 46 46 4d 01 00 0c 00 18 08 00 00 00 00 00 00\n"
              "0010: b8 b7 b6 b5 b4 b3 b2 b1 58 57 56 55 54 53 52 51\n"
              "0020: 08 07 06 05 04 03 02 01 56 61 6c 75 65 45 72 72\n"
              "0030: 6f 72 3a 20 6e 6f 00 00 00 00 00 00 00 00 00 00\n");
    EXPECT_EQ(encode(kFrozenRun, Failure{}).size(), 24U + 2048U);
}

TEST(FrozenMessages, Disconnect) {
    EXPECT_EQ(hex_dump(encode(kFrozenRun, Disconnect{kSession})),
              "0000: 4f 46 46 4d 01 00 0b 00 20 00 00 00 00 00 00 00\n"
              "0010: b8 b7 b6 b5 b4 b3 b2 b1 58 57 56 55 54 53 52 51\n");
}

TEST(FrozenMessages, NumbersOfReasons) {
    EXPECT_EQ(static_cast<int>(RefusalReason::Version), 1);
    EXPECT_EQ(static_cast<int>(RefusalReason::Nonce), 2);
    EXPECT_EQ(static_cast<int>(RefusalReason::User), 3);
    EXPECT_EQ(static_cast<int>(RefusalReason::ForeignProcess), 4);
    EXPECT_EQ(static_cast<int>(RefusalReason::Full), 5);
    EXPECT_EQ(static_cast<int>(RefusalReason::Ended), 6);
    EXPECT_EQ(static_cast<int>(DrainReason::ScaleDown), 1);
    EXPECT_EQ(static_cast<int>(DrainReason::RunEnded), 2);
    EXPECT_EQ(static_cast<int>(DrainReason::Aborted), 3);
}

}  // namespace
}  // namespace offramp
