#include "common/wire/messages.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstring>
#include <map>

namespace offramp {
namespace {

constexpr std::size_t kHeaderBytes = sizeof(MessageHeader);
constexpr std::uint64_t kRun = 0x1122334455667788;

// The allowed header fields of each type, defined a second time, independently.
struct Form {
    std::size_t body;
    std::size_t record;
};
const std::map<std::uint16_t, Form> kForms{{1, {56, 24}}, {2, {8, 0}},   {3, {8, 0}},   {4, {16, 0}},
                                           {5, {248, 0}}, {6, {16, 0}},  {7, {16, 24}}, {8, {16, 32}},
                                           {9, {16, 0}},  {10, {16, 0}}, {11, {8, 0}},  {12, {2048, 0}}};

// A well-formed message of any type, with random contents.
Bytes any_message() {
    const auto type = *rc::gen::inRange<std::uint16_t>(1, 13);
    const Form form = kForms.at(type);
    const std::uint32_t count = form.record == 0 ? 0 : *rc::gen::inRange<std::uint32_t>(0, kMaxTicketsPerMessage + 1);
    Bytes bytes(kHeaderBytes + form.body + count * form.record);
    const MessageHeader header{kMessageMagic, kMessageVersion, type, static_cast<std::uint32_t>(bytes.size()), count,
                               kRun};
    std::memcpy(bytes.data(), &header, sizeof header);
    const auto seed = *rc::gen::arbitrary<std::uint8_t>();
    for (std::size_t i = kHeaderBytes; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(seed + i * 31);
    return bytes;
}

// An accepted message is exactly as its header describes, and its parts are inside it.
void check_accepted(const ParsedMessage& message, const Bytes& bytes) {
    const Form form = kForms.at(static_cast<std::uint16_t>(message.type));
    MessageHeader header;
    std::memcpy(&header, bytes.data(), sizeof header);
    RC_ASSERT(header.magic == kMessageMagic);
    RC_ASSERT(header.version == kMessageVersion);
    RC_ASSERT(header.bytes == bytes.size());
    RC_ASSERT(message.count == header.count);
    RC_ASSERT(message.count <= (form.record == 0 ? 0 : kMaxTicketsPerMessage));
    RC_ASSERT(bytes.size() == kHeaderBytes + form.body + message.count * form.record);
    RC_ASSERT(message.body.data() == bytes.data() + kHeaderBytes);
    RC_ASSERT(message.body.size() == form.body);
    RC_ASSERT(message.records.size() == message.count * form.record);
    RC_ASSERT(message.records.data() == bytes.data() + kHeaderBytes + form.body);
}

RC_GTEST_PROP(Messages, EveryWellFormedMessageIsTaken, ()) {
    const Bytes bytes = any_message();
    const ParsedMessage message = parse_message(bytes);
    RC_ASSERT(message.problem == ParseProblem::None);
    check_accepted(message, bytes);
}

RC_GTEST_PROP(Messages, AMutatedMessageIsRefusedOrStillExact, ()) {
    Bytes bytes = any_message();
    for (int left = *rc::gen::inRange(1, 4); left > 0; --left) {
        const auto kind = *rc::gen::inRange(0, 4);
        // Most changes hit the header, which decides.
        const auto reach = *rc::gen::weightedElement<std::size_t>({{4, kHeaderBytes}, {1, bytes.size()}});
        if (kind <= 1 && !bytes.empty())
            bytes[*rc::gen::inRange<std::size_t>(0, std::min(reach, bytes.size()))] =
                *rc::gen::map(rc::gen::arbitrary<std::uint8_t>(), [](std::uint8_t b) { return std::byte{b}; });
        else if (kind == 2)
            bytes.resize(*rc::gen::inRange<std::size_t>(0, bytes.size() + 1));
        else
            bytes.resize(bytes.size() + *rc::gen::inRange<std::size_t>(1, 64));
    }
    // A copy of exactly this size, so that a sanitizer detects a read beyond it.
    const Bytes exact(bytes.begin(), bytes.end());
    const ParsedMessage message = parse_message(exact);
    if (message)
        check_accepted(message, exact);
    else
        RC_ASSERT(message.body.empty() && message.records.empty());
}

RC_GTEST_PROP(Messages, RandomBytesAreNeverTaken, (const std::vector<std::uint8_t>& noise)) {
    const bool without_magic = noise.size() < 4 || std::memcmp(noise.data(), &kMessageMagic, 4) != 0;
    RC_PRE(without_magic);
    RC_ASSERT(!parse_message(std::as_bytes(std::span(noise))));
}

RC_GTEST_PROP(Messages, RecordsComeBackAsTheyWereSent, (std::uint64_t session, std::uint64_t first)) {
    std::vector<SlabTicket> tickets(*rc::gen::inRange<std::size_t>(0, kMaxTicketsPerMessage + 1));
    for (SlabTicket& ticket : tickets)
        ticket = {*rc::gen::arbitrary<std::uint32_t>(), *rc::gen::arbitrary<std::uint32_t>(),
                  *rc::gen::arbitrary<std::uint64_t>(), *rc::gen::arbitrary<std::uint32_t>(), 0};
    const Bytes bytes = encode(kRun, Tickets{session, first}, tickets);
    const ParsedMessage message = parse_message(bytes);
    RC_ASSERT(message.type == MessageType::Tickets);
    RC_ASSERT(message.run == kRun);
    RC_ASSERT(message.as<Tickets>().session == session);
    RC_ASSERT(message.as<Tickets>().first_delivery == first);
    RC_ASSERT(message.records_of<Tickets>() == tickets);
}

// One wrong field at a time, and its counted reason.
TEST(Messages, EachWrongFieldHasItsReason) {
    const Bytes good = encode(kRun, Credit{1, 2, 0});
    ASSERT_TRUE(parse_message(good));
    const auto with = [&good](auto change) {
        MessageHeader header;
        std::memcpy(&header, good.data(), sizeof header);
        change(header);
        Bytes bytes = good;
        std::memcpy(bytes.data(), &header, sizeof header);
        return bytes;
    };
    EXPECT_EQ(parse_message({}).problem, ParseProblem::TooShort);
    EXPECT_EQ(parse_message(std::span(good).first(23)).problem, ParseProblem::TooShort);
    EXPECT_EQ(parse_message(Bytes(kMaxMessageBytes + 1)).problem, ParseProblem::TooLong);
    EXPECT_EQ(parse_message(with([](auto& h) { h.magic += 1; })).problem, ParseProblem::Magic);
    const Bytes other_version = with([](auto& h) { h.version = 9; });
    EXPECT_EQ(parse_message(other_version).problem, ParseProblem::Version);
    EXPECT_EQ(parse_message(other_version).version, 9);
    EXPECT_EQ(parse_message(with([](auto& h) { h.type = 0; })).problem, ParseProblem::Type);
    EXPECT_EQ(parse_message(with([](auto& h) { h.type = 13; })).problem, ParseProblem::Type);
    EXPECT_EQ(parse_message(with([](auto& h) { h.count = 1; })).problem, ParseProblem::Count);
    EXPECT_EQ(parse_message(with([](auto& h) { h.bytes -= 1; })).problem, ParseProblem::Length);
    EXPECT_EQ(parse_message(std::span(good).first(good.size() - 1)).problem, ParseProblem::Length);
    Bytes many = encode(kRun, Tickets{1, 1}, std::vector<SlabTicket>(kMaxTicketsPerMessage));
    EXPECT_TRUE(parse_message(many));
    many[12] = std::byte{1};  // 257 of them
    EXPECT_EQ(parse_message(many).problem, ParseProblem::Count);
}

TEST(Messages, TheLargestMessageFits) {
    EXPECT_LE(encode(kRun, Releases{1, 1}, std::vector<ReleaseRecord>(kMaxTicketsPerMessage)).size(), kMaxMessageBytes);
    EXPECT_LE(encode(kRun, Hello{}, std::vector<SlabTicket>(kMaxTicketsPerMessage)).size(), kMaxMessageBytes);
}

TEST(MessagesDeathTest, TooManyRecordsBreakTheContract) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_DEATH(encode(kRun, Tickets{1, 1}, std::vector<SlabTicket>(kMaxTicketsPerMessage + 1)),
                 "kMaxTicketsPerMessage");
}

TEST(TextField, IsCutToFitAndTerminated) {
    std::array<char, 4> field{'x', 'x', 'x', 'x'};
    put_text(field, "ab");
    EXPECT_EQ(field, (std::array<char, 4>{'a', 'b', 0, 0}));
    put_text(field, "abcdef");
    EXPECT_EQ(get_text(field), "abc");
    field = {'a', 'b', 'c', 'd'};  // a writer without a terminator
    EXPECT_EQ(get_text(field), "abcd");
}

TEST(ParseProblem, EachHasItsText) {
    std::map<std::string_view, int> words;
    for (int problem = 0; problem <= static_cast<int>(ParseProblem::Count); ++problem)
        ++words[to_string(static_cast<ParseProblem>(problem))];
    EXPECT_EQ(words.size(), 8U);
    EXPECT_EQ(words.count("?"), 0U);
}

}  // namespace
}  // namespace offramp
