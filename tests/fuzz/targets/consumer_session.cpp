// A consumer's session with arbitrary messages from a fake producer: it processes each slab once, and a bad message
// ends it with an error.

#include "consumer/session/consumer_session.hpp"

#include "common/base/error.hpp"
#include "tests/fuzz/byte_source.hpp"
#include "tests/fuzz/fuzz_target.hpp"
#include "tests/support/in_memory_ports/in_memory_ports.hpp"
#include "tests/support/manual_clock.hpp"

namespace offramp {
namespace {

constexpr int kMostSteps = 100;
constexpr std::uint64_t kRun = 7;

// Headers are valid, bodies come from the input. Every other body begins with the assigned session. One message kind in
// four names another run.
Bytes well_formed(ByteSource& source, std::uint64_t& records_sent) {
    const auto type = static_cast<MessageType>(source.byte() % 13);
    const std::uint8_t form = source.byte();
    const std::uint32_t count = type == MessageType::Tickets ? form % 4U : 0;
    std::size_t size = type == MessageType::Refused ? sizeof(Refused) : 16;
    if (type == MessageType::Challenge) size = sizeof(Challenge);
    Bytes body(size);
    Bytes records(count * sizeof(SlabTicket));
    const auto given = source.take(std::min<std::size_t>(size, 24));
    std::copy(given.begin(), given.end(), body.begin());
    constexpr std::uint64_t kSession = 1;
    if ((form & 16) == 0) std::memcpy(body.data(), &kSession, sizeof kSession);
    const auto tickets = source.take(records.size());
    std::copy(tickets.begin(), tickets.end(), records.begin());
    records_sent += count;
    return encode_bytes((form & 96) == 96 ? kRun + 1 : kRun, type, body, records, count);
}

void feed(std::span<const std::byte> input) {
    ByteSource source(input);
    InMemoryHub hub;
    const auto producer = hub.broker_port();
    const auto port = hub.consumer_port({100, 1000, 1000});
    ManualClock clock;
    ConsumerSession session(*port, clock, {.run_nonce = kRun, .window = 4, .program_version = "1"});
    session.step();
    Inbound hello;
    expect(producer->try_receive_work(hello), "the consumer sends the first message");
    std::vector<SlabTicket> held;
    std::uint64_t records_sent = 0;
    try {
        for (int step = 0; step < kMostSteps && !source.empty(); ++step) {
            const std::uint8_t action = source.byte();
            if (action % 4 == 0) {
                records_sent += kMaxTicketsPerMessage;  // the maximum per message
                producer->send(hello.peer, source.take(source.byte()));
            } else {
                producer->send(hello.peer, well_formed(source, records_sent));
            }
            if (action % 32 == 1) session.leave();
            clock.advance(std::chrono::milliseconds(action));
            session.step();
            while (const auto ticket = session.take()) held.push_back(*ticket);
            while (action % 3 == 0 && !held.empty()) {
                session.release(held.back(), ReleaseKind::Completed);
                held.pop_back();
            }
            session.until_due();
            expect(session.counts().repeated <= records_sent, "repeated records were sent");
            Inbound sent;
            while (producer->try_receive_work(sent) || producer->try_receive_release(sent))
                expect(static_cast<bool>(parse_message(sent.bytes)), "a consumer's messages are readable");
        }
    } catch (const ProtocolError& refused) {
        expect(!std::string_view(refused.what()).empty(), "a refusal has a reason");
    }
}

}  // namespace

FuzzTarget make_consumer_session() {
    using namespace std::string_literals;
    const auto say = [](MessageType type, char form, std::uint64_t second_word, const std::string& records = "") {
        std::string bytes{'\2', static_cast<char>(type), form};
        bytes += std::string(8, '\1') + std::string(reinterpret_cast<const char*>(&second_word), sizeof second_word);
        return bytes + records;
    };
    const std::string welcome = say(MessageType::Welcome, 0, 0);
    const std::string three = say(MessageType::Tickets, 3, 1, std::string(3 * sizeof(SlabTicket), '\1'));
    const std::string drain = say(MessageType::Drain, 0, 2);
    return {feed,
            {welcome + three + drain,
             welcome + three + say(MessageType::Tickets, 0, 1) + say(MessageType::ReleaseAck, 0, 1),
             say(MessageType::Challenge, 0, 5) + welcome + three +
                 say(MessageType::Tickets, 1, 4, std::string(sizeof(SlabTicket), '\2')),
             "\0\x20"s + as_seed(encode(kRun, Challenge{5})) + welcome}};
}

}  // namespace offramp
