#include <gtest/gtest.h>

#include "common/wire/messages.hpp"
#include "tests/unit/wire/hex_dump.hpp"

// The bytes of version 3. When one of these fails, either the change is a mistake, or kMessageVersion rises
// with it.
namespace offramp {
namespace {

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

TEST(FrozenMessages, Version) { EXPECT_EQ(kMessageVersion, 3U); }

TEST(FrozenMessages, Hello) {
    EXPECT_EQ(hex_dump(encode(Hello{0x0102030405060708, 0x1112131415161718, 0x2122232425262728, 0x5152535455565758,
                                    0x31323334, 0x41424344, text<16>("0.1.0")},
                              kTickets)),
              "0000: 4f 46 46 4d 03 00 01 00 78 00 00 00 02 00 00 00\n"
              "0010: 08 07 06 05 04 03 02 01 18 17 16 15 14 13 12 11\n"
              "0020: 28 27 26 25 24 23 22 21 58 57 56 55 54 53 52 51\n"
              "0030: 34 33 32 31 44 43 42 41 30 2e 31 2e 30 00 00 00\n"
              "0040: 00 00 00 00 00 00 00 00 04 03 02 01 14 13 12 11\n"
              "0050: 28 27 26 25 24 23 22 21 34 33 32 31 44 43 42 41\n"
              "0060: 04 03 02 01 14 13 12 11 28 27 26 25 24 23 22 21\n"
              "0070: 34 33 32 31 44 43 42 41\n");
}

TEST(FrozenMessages, Challenge) {
    EXPECT_EQ(hex_dump(encode(Challenge{kSession})),
              "0000: 4f 46 46 4d 03 00 02 00 18 00 00 00 00 00 00 00\n"
              "0010: 58 57 56 55 54 53 52 51\n");
}

TEST(FrozenMessages, Answer) {
    EXPECT_EQ(hex_dump(encode(Answer{kSession})),
              "0000: 4f 46 46 4d 03 00 03 00 18 00 00 00 00 00 00 00\n"
              "0010: 58 57 56 55 54 53 52 51\n");
}

TEST(FrozenMessages, Welcome) {
    EXPECT_EQ(hex_dump(encode(Welcome{kSession, 0x01020304, 0x11121314})),
              "0000: 4f 46 46 4d 03 00 04 00 20 00 00 00 00 00 00 00\n"
              "0010: 58 57 56 55 54 53 52 51 04 03 02 01 14 13 12 11\n");
}

TEST(FrozenMessages, Refused) {
    EXPECT_EQ(
        hex_dump(encode(Refused{static_cast<std::uint32_t>(RefusalReason::Full), 0x01020304, text<240>("no place")})),
        "0000: 4f 46 46 4d 03 00 05 00 08 01 00 00 00 00 00 00\n"
        "0010: 05 00 00 00 04 03 02 01 6e 6f 20 70 6c 61 63 65\n");
}

TEST(FrozenMessages, Credit) {
    EXPECT_EQ(hex_dump(encode(Credit{kSession, 0x01020304, 0x11121314})),
              "0000: 4f 46 46 4d 03 00 06 00 20 00 00 00 00 00 00 00\n"
              "0010: 58 57 56 55 54 53 52 51 04 03 02 01 14 13 12 11\n");
}

TEST(FrozenMessages, Tickets) {
    EXPECT_EQ(hex_dump(encode(Tickets{kSession, 0x0102030405060708}, kTickets)),
              "0000: 4f 46 46 4d 03 00 07 00 50 00 00 00 02 00 00 00\n"
              "0010: 58 57 56 55 54 53 52 51 08 07 06 05 04 03 02 01\n"
              "0020: 04 03 02 01 14 13 12 11 28 27 26 25 24 23 22 21\n"
              "0030: 34 33 32 31 44 43 42 41 04 03 02 01 14 13 12 11\n"
              "0040: 28 27 26 25 24 23 22 21 34 33 32 31 44 43 42 41\n");
}

TEST(FrozenMessages, Releases) {
    EXPECT_EQ(hex_dump(encode(Releases{kSession, 0x0102030405060708}, kReleases)),
              "0000: 4f 46 46 4d 03 00 08 00 60 00 00 00 02 00 00 00\n"
              "0010: 58 57 56 55 54 53 52 51 08 07 06 05 04 03 02 01\n"
              "0020: 04 03 02 01 14 13 12 11 28 27 26 25 24 23 22 21\n"
              "0030: 34 33 32 31 44 43 42 41 01 00 00 00 64 63 62 61\n"
              "0040: 04 03 02 01 14 13 12 11 28 27 26 25 24 23 22 21\n"
              "0050: 34 33 32 31 44 43 42 41 02 00 00 00 64 63 62 61\n");
}

TEST(FrozenMessages, ReleaseAck) {
    EXPECT_EQ(hex_dump(encode(ReleaseAck{kSession, 0x0102030405060708})),
              "0000: 4f 46 46 4d 03 00 09 00 20 00 00 00 00 00 00 00\n"
              "0010: 58 57 56 55 54 53 52 51 08 07 06 05 04 03 02 01\n");
}

TEST(FrozenMessages, Drain) {
    EXPECT_EQ(hex_dump(encode(Drain{kSession, static_cast<std::uint32_t>(DrainReason::Aborted), 0x01020304})),
              "0000: 4f 46 46 4d 03 00 0a 00 20 00 00 00 00 00 00 00\n"
              "0010: 58 57 56 55 54 53 52 51 03 00 00 00 04 03 02 01\n");
}

TEST(FrozenMessages, Failure) {
    const std::string bytes = hex_dump(encode(Failure{kSession, 0x0102030405060708, text<2032>("ValueError: no")}));
    EXPECT_EQ(bytes.substr(0, bytes.find("0030:")),
              "0000: 4f 46 46 4d 03 00 0c 00 10 08 00 00 00 00 00 00\n"
              "0010: 58 57 56 55 54 53 52 51 08 07 06 05 04 03 02 01\n"
              "0020: 56 61 6c 75 65 45 72 72 6f 72 3a 20 6e 6f 00 00\n");
    EXPECT_EQ(encode(Failure{}).size(), 16U + 2048U);
}

TEST(FrozenMessages, Disconnect) {
    EXPECT_EQ(hex_dump(encode(Disconnect{kSession})),
              "0000: 4f 46 46 4d 03 00 0b 00 18 00 00 00 00 00 00 00\n"
              "0010: 58 57 56 55 54 53 52 51\n");
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
