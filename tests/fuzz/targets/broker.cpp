// The broker behind its port: whatever one consumer sends or writes into heartbeat records, no other consumer's slab is
// lost, reused or completed. An input is a history: a byte selects an event, and the following bytes its contents.

#include "common/base/error.hpp"
#include "tests/fuzz/byte_source.hpp"
#include "tests/fuzz/fuzz_target.hpp"
#include "tests/unit/broker/broker_fixture.hpp"

namespace offramp {
namespace {

constexpr int kMostSteps = 200;

// One honest consumer, and one that sends what the input dictates.
class History {
  public:
    explicit History(ByteSource& source) : source_(source), hostile_(fixture_, 666, 3), honest_(fixture_, 100, 2) {
        expect(honest_.join() && hostile_.join(), "both are admitted");
    }

    void step() {
        switch (source_.byte() % 12) {
            case 0:
                if (fixture_.can_fill()) fixture_.publish(batches_++);
                break;
            case 1:
                send_bytes();
                break;
            case 2:
                release_bytes();
                break;
            case 3:
            case 4:
                send_well_formed();
                break;
            case 5:
            case 6:
                release_tickets();
                break;
            case 7:
                write_heartbeats();
                break;
            case 8:
                fixture_.clock.advance(std::chrono::milliseconds(source_.number<std::uint16_t>()));
                break;
            case 9:
                honest_does_its_work();
                break;
            case 10:
                hostile_.receive();
                break;
            case 11:
                break;
        }
        fixture_.broker->step();
        check();
    }

    void end() {
        hostile_.die();
        check();
        fixture_.exchange->finish();
        for (int round = 0; round < 200 && !fixture_.broker->ended(); ++round) {
            if (!welcome_back()) break;
            honest_does_its_work();
            if (honest_.drain && honest_.tickets.empty())
                honest_.port->send_work(of_run(Disconnect{honest_.welcome->session}));
            fixture_.clock.advance(std::chrono::seconds(1));
            fixture_.broker->step();
            check();
        }
        const BrokerReport report = fixture_.report();
        expect(fixture_.broker->ended() && report.in_flight.slabs == 0, "the run ends");
        expect(report.completed.batches + report.dead_lettered.batches == batches_, "every batch is accounted for");
    }

  private:
    // An honest consumer without its handle, which never happens, would hide effects of the hostile one.
    bool welcome_back() const { return honest_.welcome.has_value(); }

    void send_bytes() { hostile_.port->send_work(source_.take(source_.byte())); }
    void release_bytes() { hostile_.port->send_release(source_.take(source_.byte())); }

    // A valid header and an arbitrary body. Half of the bodies begin with the right session, half name another run.
    void send_well_formed() {
        const auto type = static_cast<MessageType>(source_.byte() % 14);
        const std::uint8_t form = source_.byte();
        Bytes body(std::size_t{form} % 64);
        const auto given = source_.take(body.size());
        std::copy(given.begin(), given.end(), body.begin());
        if ((form & 64) != 0 && body.size() >= 8) std::memcpy(body.data(), &hostile_.welcome->session, 8);
        const std::uint64_t run = (form & 128) != 0 ? source_.number<std::uint64_t>() : BrokerFixture::kNonce;
        // A Disconnect ends the session; the consumer may join again, like a process.
        hostile_.port->send_work(encode_bytes(run, type, body, {}, 0));
        if (type == MessageType::Disconnect || type == MessageType::Answer) rejoin();
    }
    void rejoin() {
        fixture_.broker->step();
        hostile_.sent = 0;
        hostile_.challenge.reset();
        const auto previous = hostile_.welcome;
        hostile_.welcome.reset();
        if (!hostile_.join() && !hostile_.welcome) hostile_.welcome = previous;
        hostile_.tickets.clear();
    }

    // Releases of its own slabs, of the honest consumer's, or of none; in order, repeated or ahead.
    void release_tickets() {
        std::vector<ReleaseRecord> records(source_.byte() % 4);
        for (ReleaseRecord& record : records) {
            SlabTicket ticket{.epoch = 1,
                              .slab = source_.byte() % 6U,
                              .generation = source_.byte() % 8U,
                              .attempt = source_.byte() % 4U};
            const std::uint8_t whose = source_.byte();
            const auto& from = whose % 3 == 0 ? hostile_.tickets : honest_.tickets;
            if (whose % 3 != 2 && !from.empty()) ticket = from[whose / 3 % from.size()];
            record = {ticket, source_.byte() % 4U, 0};
        }
        const std::uint64_t session = source_.byte() % 4 == 0 ? honest_.welcome->session : hostile_.welcome->session;
        const std::uint64_t first = source_.byte() % 3 == 0 ? source_.number<std::uint16_t>() : hostile_.sent + 1;
        if (session == hostile_.welcome->session && first == hostile_.sent + 1) hostile_.sent += records.size();
        hostile_.port->send_release(of_run(Releases{session, first}, records));
    }

    // All heartbeat records are one object: with --consumer-user any consumer can write any of them.
    void write_heartbeats() {
        HeartbeatRecord& heartbeat = fixture_.heartbeats[source_.byte() % fixture_.heartbeats.size()];
        store_word(heartbeat.work, source_.number<std::uint64_t>());
        store_word(heartbeat.progress, source_.number<std::uint64_t>());
        if (source_.byte() % 8 == 0) store_word(heartbeat.session, source_.number<std::uint64_t>());
        store_word(heartbeat.busy_ns, source_.number<std::uint64_t>());
    }

    void honest_does_its_work() {
        honest_.receive();
        const std::vector<SlabTicket> tickets = std::move(honest_.tickets);
        honest_.tickets.clear();
        for (const SlabTicket& ticket : tickets) honest_.release(ticket);
    }

    void check() {
        expect(fixture_.report().conserved(), "samples are conserved");
        honest_.receive();
        const ConsumerRef honest{honest_.welcome->consumer_index, honest_.welcome->session};
        for (const SlabTicket& ticket : honest_.tickets) {
            expect(fixture_.ledger.word(ticket.slab).generation == ticket.generation,
                   "no slab is reused under its holder");
            expect(fixture_.ledger.holds(ticket.slab, honest), "no hold of another is taken away");
        }
    }

    ByteSource& source_;
    BrokerFixture fixture_{5, {.max_failures = 3}};
    ScriptedConsumer hostile_;
    ScriptedConsumer honest_;
    std::uint64_t batches_ = 0;
};

void feed(std::span<const std::byte> input) {
    ByteSource source(input);
    History history(source);
    for (int step = 0; step < kMostSteps && !source.empty(); ++step) history.step();
    history.end();
}

}  // namespace

FuzzTarget make_broker() {
    using namespace std::string_literals;
    const std::string publish(1, '\0');
    const std::string own("\x05\x01\0\0\0\0\x01\x01\x01"s);
    const std::string others("\x05\x01\0\0\0\x01\x01\x01\x01"s);
    return {feed,
            {publish + publish + publish + "\x0a" + own + others + own,
             publish + "\x03\x06\x50" + std::string(16, '\0') + publish + own,
             publish + "\x07\x01" + std::string(25, '\x01') + "\x08\xff\xff" + publish + "\x09",
             publish + "\x02\x20" + as_seed(of_run(Releases{1, 1})) + "\x01\x20" + as_seed(of_run(Disconnect{1})) +
                 publish}};
}

}  // namespace offramp
