#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "common/wire/ledger_layout.hpp"

// Messages on the channels: a header and a fixed body, little-endian, without pointers. The only variable part is a
// counted tail of fixed records.
//
//   MessageHeader (24 bytes) | body of the type | records[count]
//
// Every message names its run, and is valid only in that run: the next run in the same directory uses the same numbers
// of sessions, slabs and deliveries.
//
//   consumer → producer, work channel     Hello, Answer, Credit, Disconnect
//   producer → consumer, work channel     Challenge, Welcome, Refused, Tickets, ReleaseAck, Drain
//   consumer → producer, free-list        Failure, Releases
//
// Version rule: raise kMessageVersion with any change. A peer with another version is refused by name. tests/unit/wire
// freezes the bytes.
namespace offramp {

inline constexpr std::uint32_t kMessageMagic = 0x4d46464fU;  // "OFFM"
inline constexpr std::uint16_t kMessageVersion = 1;
inline constexpr std::uint32_t kMaxTicketsPerMessage = 256;
inline constexpr std::size_t kMaxMessageBytes = 16 * 1024;

enum class MessageType : std::uint16_t {
    Hello = 1,
    Challenge = 2,
    Answer = 3,
    Welcome = 4,
    Refused = 5,
    Credit = 6,
    Tickets = 7,
    Releases = 8,
    ReleaseAck = 9,
    Drain = 10,
    Disconnect = 11,
    Failure = 12,
};

struct MessageHeader {
    std::uint32_t magic;
    std::uint16_t version;
    std::uint16_t type;
    std::uint32_t bytes;  // of the whole message
    std::uint32_t count;  // of the records behind the body
    std::uint64_t run;    // the run's nonce
};

// The first message of a consumer. To a producer that recovered the run, it names the consumer's previous session, if
// any, and the last delivery that the consumer saw. The records are the slabs that it holds, then its unacknowledged
// releases; if they do not fit, the oldest releases are omitted. The Welcome then names the same session and index, and
// deliveries and releases are numbered from 1 again.
struct Hello {
    std::uint64_t token;             // random; only its owner can continue the session
    std::uint64_t previous_session;  // 0: none
    std::uint64_t last_delivery;
    std::uint64_t work;     // SlabWork::hash(); the consumer is refused if it differs from the run's
    std::uint32_t holding;  // records of held slabs; the rest are unacknowledged releases
    std::uint32_t window;   // credits: deliveries that it holds at a time
    std::array<char, 16> program_version;
};
// Proves that the process behind the connection is alive after the producer opened its pidfd.
struct Challenge {
    std::uint64_t secret;
};
struct Answer {
    std::uint64_t secret;
};
struct Welcome {
    std::uint64_t session;
    std::uint32_t consumer_index;  // in the ledger's table, and among heartbeat records
    std::uint32_t epoch;
};
enum class RefusalReason : std::uint32_t {
    Version = 1,
    Nonce = 2,
    User = 3,
    ForeignProcess = 4,
    Full = 5,
    Ended = 6,
    Work = 7
};
struct Refused {
    std::uint32_t reason;  // RefusalReason
    std::uint32_t reserved;
    std::array<char, 240> text;  // NUL-terminated
};
// Sets the number of deliveries that the consumer holds at a time. It is absolute, so that repeating it is harmless. 0:
// drain.
struct Credit {
    std::uint64_t session;
    std::uint32_t window;
    std::uint32_t reserved;
};
// Delivers slabs. `first_delivery` is the first ticket's number among the session's deliveries, from 1, without gaps.
struct Tickets {
    std::uint64_t session;
    std::uint64_t first_delivery;
};
enum class ReleaseKind : std::uint32_t {
    Completed = 1,  // processed, and the results are committed
    Returned = 2,   // not processed, without a failure: deliver it to another consumer
    Failed = 3,     // processing failed, and the consumer is alive: counted, and delivered to another consumer
    Rejected = 4,   // no consumer can process it: becomes a dead letter immediately
};
constexpr bool is_failure(ReleaseKind kind) { return kind == ReleaseKind::Failed || kind == ReleaseKind::Rejected; }
struct ReleaseRecord {
    SlabTicket ticket;
    std::uint32_t kind;  // ReleaseKind
    std::uint32_t reserved;
};
// Releases slabs. `first_sequence` is the first record's number among the session's releases, from 1, without gaps. A
// consumer repeats every record until it is acknowledged.
struct Releases {
    std::uint64_t session;
    std::uint64_t first_sequence;
};
// The reason of a Failed or Rejected release. It is sent before the message with that release, every time. If it is
// missing, the slab is still released.
struct Failure {
    std::uint64_t session;
    std::uint64_t sequence;       // of the release
    std::array<char, 2032> text;  // UTF-8, NUL-terminated, cut to fit; for users
};
struct ReleaseAck {
    std::uint64_t session;
    std::uint64_t through_sequence;  // all releases up to this one have been processed
};
enum class DrainReason : std::uint32_t { ScaleDown = 1, RunEnded = 2, Aborted = 3 };
// Asks the consumer to finish its slabs, send Disconnect, and exit.
struct Drain {
    std::uint64_t session;
    std::uint32_t reason;
    std::uint32_t reserved;
};
struct Disconnect {
    std::uint64_t session;  // 0: the consumer has no session yet
};

static_assert(sizeof(MessageHeader) == 24 && std::has_unique_object_representations_v<MessageHeader>);
static_assert(sizeof(Hello) == 56 && std::has_unique_object_representations_v<Hello>);
static_assert(sizeof(Challenge) == 8 && sizeof(Answer) == 8 && sizeof(Disconnect) == 8);
static_assert(sizeof(Welcome) == 16 && sizeof(Refused) == 248 && sizeof(Credit) == 16);
static_assert(sizeof(Failure) == 2048 && std::has_unique_object_representations_v<Failure>);
static_assert(sizeof(Tickets) == 16 && sizeof(Releases) == 16 && sizeof(ReleaseAck) == 16 && sizeof(Drain) == 16);
static_assert(sizeof(ReleaseRecord) == 32 && std::has_unique_object_representations_v<ReleaseRecord>);
static_assert(sizeof(MessageHeader) + sizeof(Hello) + kMaxTicketsPerMessage * sizeof(ReleaseRecord) <=
              kMaxMessageBytes);

// --- writing and reading ---

using Bytes = std::vector<std::byte>;

template <class Body>
inline constexpr MessageType kTypeOf = MessageType{0};
template <>
inline constexpr MessageType kTypeOf<Hello> = MessageType::Hello;
template <>
inline constexpr MessageType kTypeOf<Challenge> = MessageType::Challenge;
template <>
inline constexpr MessageType kTypeOf<Answer> = MessageType::Answer;
template <>
inline constexpr MessageType kTypeOf<Welcome> = MessageType::Welcome;
template <>
inline constexpr MessageType kTypeOf<Refused> = MessageType::Refused;
template <>
inline constexpr MessageType kTypeOf<Credit> = MessageType::Credit;
template <>
inline constexpr MessageType kTypeOf<Tickets> = MessageType::Tickets;
template <>
inline constexpr MessageType kTypeOf<Failure> = MessageType::Failure;
template <>
inline constexpr MessageType kTypeOf<Releases> = MessageType::Releases;
template <>
inline constexpr MessageType kTypeOf<ReleaseAck> = MessageType::ReleaseAck;
template <>
inline constexpr MessageType kTypeOf<Drain> = MessageType::Drain;
template <>
inline constexpr MessageType kTypeOf<Disconnect> = MessageType::Disconnect;

// The type of the records after a body: tickets for Hello and Tickets, ReleaseRecord for Releases; other bodies have
// none.
template <class Body>
struct RecordOf {
    using Type = void;
};
template <>
struct RecordOf<Hello> {
    using Type = SlabTicket;
};
template <>
struct RecordOf<Tickets> {
    using Type = SlabTicket;
};
template <>
struct RecordOf<Releases> {
    using Type = ReleaseRecord;
};

Bytes encode_bytes(std::uint64_t run, MessageType type, std::span<const std::byte> body,
                   std::span<const std::byte> records, std::uint32_t count);

template <class Body>
Bytes encode(std::uint64_t run, const Body& body) {
    return encode_bytes(run, kTypeOf<Body>, std::as_bytes(std::span(&body, 1)), {}, 0);
}
template <class Body>
Bytes encode(std::uint64_t run, const Body& body, std::span<const typename RecordOf<Body>::Type> records) {
    return encode_bytes(run, kTypeOf<Body>, std::as_bytes(std::span(&body, 1)), std::as_bytes(records),
                        static_cast<std::uint32_t>(records.size()));
}

// Why a message was rejected, for counters and for one log line. It is never an exception, because any process may send
// any bytes.
enum class ParseProblem { None, TooShort, TooLong, Magic, Version, Type, Length, Count };
std::string_view to_string(ParseProblem problem);

// A message whose header, type and length agree. Borrows the bytes.
struct ParsedMessage {
    ParseProblem problem = ParseProblem::None;
    std::uint16_t version = 0;  // as sent, even if it differs from kMessageVersion
    MessageType type{};
    std::uint32_t count = 0;
    std::uint64_t run = 0;               // the nonce of the addressed run
    std::span<const std::byte> body;     // exactly the body's size
    std::span<const std::byte> records;  // exactly count records

    explicit operator bool() const { return problem == ParseProblem::None; }
    // A copy of the body. Check `type` first.
    template <class Body>
    Body as() const;
    template <class Body>
    std::vector<typename RecordOf<Body>::Type> records_of() const;
};

ParsedMessage parse_message(std::span<const std::byte> bytes);

// Fixed character fields: cut to fit, always NUL-terminated; read up to the first NUL.
template <std::size_t N>
void put_text(std::array<char, N>& field, std::string_view text) {
    field.fill(0);
    text.copy(field.data(), N - 1);
}
template <std::size_t N>
std::string get_text(const std::array<char, N>& field) {
    const std::string_view all(field.data(), N);
    return std::string(all.substr(0, all.find('\0')));
}

// --- templates ---

void copy_bytes(std::span<const std::byte> from, void* to);

template <class Body>
Body ParsedMessage::as() const {
    Body value{};
    copy_bytes(body.first(sizeof(Body)), &value);
    return value;
}
template <class Body>
std::vector<typename RecordOf<Body>::Type> ParsedMessage::records_of() const {
    std::vector<typename RecordOf<Body>::Type> values(count);
    copy_bytes(records, values.data());
    return values;
}

}  // namespace offramp
