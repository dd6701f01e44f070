// Messages of both channels, as any peer may send them.

#include "common/wire/messages.hpp"

#include <array>

#include "common/base/error.hpp"
#include "tests/fuzz/exact_copy.hpp"
#include "tests/fuzz/fuzz_target.hpp"

namespace offramp {
namespace {

template <class Body>
void read_as(const ParsedMessage& message) {
    if (message.type != kTypeOf<Body>) return;
    const Body body = message.as<Body>();
    expect(encode_bytes(message.run, message.type, std::as_bytes(std::span(&body, 1)), message.records, message.count)
                   .size() == sizeof(MessageHeader) + message.body.size() + message.records.size(),
           "reading and writing give the same bytes");
    if constexpr (!std::is_void_v<typename RecordOf<Body>::Type>)
        expect(message.records_of<Body>().size() == message.count, "as many records as the header says");
}

void feed(std::span<const std::byte> input) {
    ExactCopy copy(input);
    const ParsedMessage message = parse_message(copy.bytes());
    expect(!to_string(message.problem).empty(), "a problem has a name");
    if (!message) return;
    read_as<Hello>(message);
    read_as<Challenge>(message);
    read_as<Answer>(message);
    read_as<Welcome>(message);
    read_as<Refused>(message);
    read_as<Credit>(message);
    read_as<Tickets>(message);
    read_as<Releases>(message);
    read_as<ReleaseAck>(message);
    read_as<Drain>(message);
    read_as<Disconnect>(message);
    if (message.type == MessageType::Refused)
        expect(get_text(message.as<Refused>().text).size() <= 240, "a text ends with its field");
}

}  // namespace

FuzzTarget make_message() {
    const std::array<SlabTicket, 2> tickets{SlabTicket{1, 3, 9, 1, 0}, SlabTicket{1, 4, 2, 7, 0}};
    const std::array<ReleaseRecord, 2> releases{ReleaseRecord{tickets[0], 1, 0}, ReleaseRecord{tickets[1], 2, 0}};
    constexpr std::uint64_t kRun = 7;
    Refused refused{1, 0, {}};
    put_text(refused.text, "another version");
    return {feed,
            {as_seed(encode(kRun, Hello{.window = 2})), as_seed(encode(kRun, Hello{.holding = 1}, tickets)),
             as_seed(encode(kRun, Challenge{5})), as_seed(encode(kRun, Answer{5})),
             as_seed(encode(kRun, Welcome{1, 0, 1})), as_seed(encode(kRun, refused)),
             as_seed(encode(kRun, Credit{1, 4, 0})), as_seed(encode(kRun, Tickets{1, 1}, tickets)),
             as_seed(encode(kRun, Releases{1, 1}, releases)), as_seed(encode(kRun, ReleaseAck{1, 2})),
             as_seed(encode(kRun, Drain{1, 2, 0})), as_seed(encode(kRun, Disconnect{1}))}};
}

}  // namespace offramp
