#include "consumer/session/consumer_session.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "common/base/error.hpp"
#include "common/base/failpoint.hpp"
#include "common/base/utf8.hpp"

namespace offramp {
namespace {

// How soon to retry: a full channel gives no sign when it has room again.
constexpr std::chrono::milliseconds kSendAgainEvery{5};
// A doorbell may be lost, so check the channel this often even without one.
constexpr std::chrono::seconds kLookAgainEvery{1};
// Releases held back must not starve the producer of slabs: it fills the rest of the window meanwhile.
constexpr std::uint32_t kWindowShareHeldBack = 4;

}  // namespace

ConsumerSession::ConsumerSession(ConsumerPort& port, const Clock& clock, const Options& options)
    : port_(&port),
      clock_(&clock),
      options_(options),
      most_held_back_(std::max(1U, options.window / kWindowShareHeldBack)) {
    expect(options.window >= 1, "a consumer holds at least one slab at a time");
    outgoing_.push_back(hello());
}

// A consumer from an earlier producer reports its held slabs, then its unacknowledged releases, the latest last. If
// they do not all fit, the oldest releases have most likely been accepted.
Bytes ConsumerSession::hello() const {
    Hello hello{};
    hello.token = options_.token;
    hello.window = window();
    hello.previous_session = welcome_.session;
    hello.last_delivery = last_delivery_;
    hello.work = options_.work;
    put_text(hello.program_version, options_.program_version);
    std::vector<SlabTicket> tickets(held_);
    tickets.insert(tickets.end(), pending_.begin(), pending_.end());
    expect(tickets.size() <= kMaxTicketsPerMessage, "a window of slabs fits a message");
    hello.holding = static_cast<std::uint32_t>(tickets.size());
    const auto& released = releases_.records();
    const std::size_t fitting = std::min(released.size(), kMaxTicketsPerMessage - tickets.size());
    for (std::size_t i = released.size() - fitting; i < released.size(); ++i) tickets.push_back(released[i].ticket);
    return encode(options_.run_nonce, hello, std::span<const SlabTicket>(tickets));
}

void ConsumerSession::lose_producer() {
    port_ = nullptr;
    outgoing_.clear();
    answered_at_.reset();
    away_ = true;
}

void ConsumerSession::meet(ConsumerPort& port) {
    port_ = &port;
    state_ = State::Greeting;
    outgoing_.push_back(hello());
}

void ConsumerSession::step() {
    if (state_ == State::Refused || port_ == nullptr) return;
    Bytes bytes;
    while (!disconnect_queued_ && state_ != State::Refused && port_->try_receive(bytes)) receive(bytes);
    repeat_hello();
    send_due();
}

void ConsumerSession::open() {
    const std::uint32_t before = window();
    opened_ = true;
    // Otherwise the Hello reports it to the next producer; a leaving consumer accepts no more.
    if (window() != before && state_ == State::Serving && !away_)
        outgoing_.push_back(message(Credit{welcome_.session, window(), 0}));
}

std::optional<SlabTicket> ConsumerSession::take() {
    if (pending_.empty()) return std::nullopt;
    const SlabTicket ticket = pending_.front();
    pending_.pop_front();
    held_.push_back(ticket);
    return ticket;
}

void ConsumerSession::release(const SlabTicket& ticket, ReleaseKind kind, std::chrono::nanoseconds busy) {
    queue_release(ticket, kind);
    unsent_busy_ += busy;
}

void ConsumerSession::release_failed(const SlabTicket& ticket, ReleaseKind kind, std::string why) {
    queue_release(ticket, kind, std::move(why));
    unsent_busy_ += kHoldBack;
}

void ConsumerSession::queue_release(const SlabTicket& ticket, ReleaseKind kind, std::string why) {
    const auto held = std::find(held_.begin(), held_.end(), ticket);
    expect(held != held_.end(), "only a slab that take() gave is released, once");
    releases_.add(ticket, kind, std::move(why));  // add first: if memory runs out, the slab still counts as held
    held_.erase(held);
}

void ConsumerSession::leave() {
    if (state_ == State::Ended || state_ == State::Refused || returns_new_) return;
    if (away_) {  // held slabs go to the next producer, or are released at the end
        returns_new_ = true;
        return_pending();
        return;
    }
    if (state_ == State::Greeting) {  // it holds no slab, and a Welcome may be on its way
        if (!disconnect_queued_) outgoing_.push_back(message(Disconnect{0}));
        disconnect_queued_ = true;
        return send_due();
    }
    state_ = State::Draining;
    returns_new_ = true;
    outgoing_.push_back(message(Credit{welcome_.session, 0, 0}));
    return_pending();
}

void ConsumerSession::abandon() {
    while (!held_.empty()) release(SlabTicket(held_.front()), ReleaseKind::Returned);
    leave();
}

std::chrono::nanoseconds ConsumerSession::until_due() const {
    if (away_ && outgoing_.empty()) return kLookAgainEvery;
    if (!outgoing_.empty()) return kSendAgainEvery;
    if (releases_.has_unsent()) return kSendAgainEvery;
    const auto due = releases_.next_due();
    if (!due) return kLookAgainEvery;
    // A due release was not sent because the channel was full, for example behind a stopped producer.
    return std::clamp<std::chrono::nanoseconds>(*due - clock_->now(), kSendAgainEvery, kLookAgainEvery);
}

void ConsumerSession::receive(const Bytes& bytes) {
    const ParsedMessage parsed = parse_message(bytes);
    if (parsed.problem == ParseProblem::Version && state_ == State::Greeting)
        throw ProtocolError("the producer speaks message version " + std::to_string(parsed.version) +
                                ", this consumer " + std::to_string(kMessageVersion),
                            "Start producer and consumers of one build");
    if (!parsed) {
        if (counts_.unreadable++ == 0)
            spdlog::warn("a message of {} bytes from the producer was ignored: {}", bytes.size(),
                         to_string(parsed.problem));
        return;
    }
    // Only a refusal may come from another run's producer, whose socket this consumer has reached.
    if (parsed.run != options_.run_nonce && (parsed.type != MessageType::Refused || state_ != State::Greeting)) {
        ++counts_.other_run;
        return;
    }
    switch (parsed.type) {
        case MessageType::Challenge:
            return on_challenge(parsed.as<Challenge>());
        case MessageType::Welcome:
            return on_welcome(parsed.as<Welcome>());
        case MessageType::Refused:
            return on_refused(parsed.as<Refused>());
        case MessageType::Tickets:
            return on_tickets(parsed.as<Tickets>(), parsed.records_of<Tickets>());
        case MessageType::ReleaseAck:
            return on_ack(parsed.as<ReleaseAck>());
        case MessageType::Drain:
            return on_drain(parsed.as<Drain>());
        case MessageType::Hello:
        case MessageType::Answer:
        case MessageType::Credit:
        case MessageType::Failure:
        case MessageType::Releases:
        case MessageType::Disconnect:
            break;  // a message that only consumers send
    }
    ++counts_.out_of_place;
}

void ConsumerSession::on_challenge(const Challenge& challenge) {
    outgoing_.push_back(message(Answer{challenge.secret}));
    answered_at_ = clock_->now();
}

void ConsumerSession::on_welcome(const Welcome& welcome) {
    if (state_ != State::Greeting || welcome.session == 0) {
        ++counts_.out_of_place;
        return;
    }
    if (away_ && welcomed() &&
        (welcome.session != welcome_.session || welcome.consumer_index != welcome_.consumer_index))
        throw ProtocolError("the producer gave this consumer session " + std::to_string(welcome.session) +
                                " with consumer index " + std::to_string(welcome.consumer_index) +
                                ", but it holds slabs as session " + std::to_string(welcome_.session) + " with index " +
                                std::to_string(welcome_.consumer_index),
                            "This consumer ends, so that the producer gives them to another one");
    failpoint("consumer.welcomed");
    welcome_ = welcome;
    state_ = State::Serving;
    if (!away_) return;
    failpoint("consumer.back");
    away_ = false;
    last_delivery_ = 0;
    releases_.begin_anew();
    if (!returns_new_) return;
    state_ = State::Draining;
    outgoing_.push_back(message(Credit{welcome_.session, 0, 0}));
}

void ConsumerSession::on_refused(const Refused& refused) {
    refusal_ = {static_cast<RefusalReason>(refused.reason), get_text(refused.text)};
    state_ = State::Refused;
}

void ConsumerSession::on_tickets(const Tickets& tickets, const std::vector<SlabTicket>& records) {
    if (!is_current_session(tickets.session)) return;
    // The producer chose these numbers; the comparisons below cannot overflow for any value.
    if (tickets.first_delivery == 0) {
        ++counts_.out_of_place;
        return;
    }
    if (tickets.first_delivery > last_delivery_ + 1 && returns_new_) return;  // this consumer's Disconnect returns them
    if (tickets.first_delivery > last_delivery_ + 1)
        throw ProtocolError("deliveries " + std::to_string(last_delivery_ + 1) + " to " +
                                std::to_string(tickets.first_delivery - 1) + " of session " +
                                std::to_string(tickets.session) + " are missing",
                            "This consumer ends, so that the producer gives them to another one");
    const std::uint64_t seen = last_delivery_ + 1 - tickets.first_delivery;
    const auto repeated = static_cast<std::size_t>(std::min<std::uint64_t>(seen, records.size()));
    counts_.repeated += repeated;
    // Slabs that the producer sent before it read of a window of 0 are returned unopened.
    const std::size_t holding = held_.size() + pending_.size() + records.size() - repeated;
    if (!returns_new_ && holding > std::min<std::size_t>(window(), kMaxTicketsPerMessage))
        throw ProtocolError("the producer sent slabs beyond this consumer's window: with them it would hold " +
                                std::to_string(holding) + ", but it asked for " + std::to_string(window()) + " at most",
                            "This consumer ends, so that the producer gives them to another one");
    for (std::size_t i = repeated; i < records.size(); ++i) {
        pending_.push_back(records[i]);
        ++last_delivery_;
    }
    if (returns_new_) return_pending();
}

void ConsumerSession::on_ack(const ReleaseAck& ack) {
    if (!is_current_session(ack.session)) return;
    failpoint("consumer.acknowledged");
    if (!releases_.acknowledge(ack.through_sequence, clock_->now())) ++counts_.out_of_place;
}

void ConsumerSession::on_drain(const Drain& drain) {
    if (!is_current_session(drain.session)) return;
    const auto reason = static_cast<DrainReason>(drain.reason);
    if (reason != DrainReason::ScaleDown && reason != DrainReason::RunEnded && reason != DrainReason::Aborted) {
        ++counts_.out_of_place;
        return;
    }
    state_ = State::Draining;
    if (reason == DrainReason::Aborted) {
        returns_new_ = true;
        return_pending();
    }
}

bool ConsumerSession::is_current_session(std::uint64_t session) {
    if (welcomed() && session == welcome_.session) return true;
    ++counts_.other_session;
    return false;
}

void ConsumerSession::return_pending() {
    for (const SlabTicket& ticket : pending_) releases_.add(ticket, ReleaseKind::Returned);
    pending_.clear();
}

bool ConsumerSession::may_hold_back() const {
    return state_ == State::Serving && !pending_.empty() && unsent_busy_ < kHoldBack &&
           releases_.unsent() < most_held_back_;
}

void ConsumerSession::send_due() {
    if (state_ == State::Refused || port_ == nullptr) return;
    if (!away_ && !may_hold_back()) send_releases();
    try_disconnect();
    while (!outgoing_.empty() && port_->send_work(outgoing_.front())) outgoing_.pop_front();
    if (disconnect_queued_ && outgoing_.empty()) state_ = State::Ended;
}

void ConsumerSession::repeat_hello() {
    if (state_ != State::Greeting || disconnect_queued_ || !answered_at_ || !outgoing_.empty()) return;
    if (clock_->now() - *answered_at_ < kHelloAgain) return;
    answered_at_.reset();
    outgoing_.push_back(hello());
}

void ConsumerSession::send_releases() {
    const TimePoint now = clock_->now();
    while (const auto batch = releases_.due(now)) {
        failpoint("consumer.release");
        if (!send_reasons(*batch)) break;
        const Releases body{welcome_.session, batch->first_sequence};
        if (!port_->send_release(encode(options_.run_nonce, body, std::span<const ReleaseRecord>(batch->records))))
            break;
        failpoint("consumer.release.sent");
        releases_.mark_sent(*batch, now);
    }
    if (!releases_.has_unsent()) unsent_busy_ = {};
}

// Sends the reasons before the releases that they belong to, on the same channel.
bool ConsumerSession::send_reasons(const ReleaseLog::Batch& batch) {
    const auto& reasons = releases_.reasons();
    for (auto reason = reasons.lower_bound(batch.first_sequence);
         reason != reasons.end() && reason->first < batch.first_sequence + batch.records.size(); ++reason) {
        Failure failure{.session = welcome_.session, .sequence = reason->first, .text = {}};
        put_text(failure.text, utf8_prefix(reason->second, failure.text.size() - 1));
        if (!port_->send_release(message(failure))) return false;
    }
    return true;
}

void ConsumerSession::try_disconnect() {
    if (state_ != State::Draining || disconnect_queued_ || !settled()) return;
    failpoint("consumer.disconnect");
    outgoing_.push_back(message(Disconnect{welcome_.session}));
    disconnect_queued_ = true;
}

std::uint64_t ReleaseLog::add(const SlabTicket& ticket, ReleaseKind kind, std::string why) {
    records_.push_back({ticket, static_cast<std::uint32_t>(kind), 0});
    if (!why.empty()) reasons_.emplace(last_sequence(), std::move(why));
    return last_sequence();
}

std::uint64_t ReleaseLog::next_to_send(TimePoint now) const {
    return first_ < next_ && now >= repeat_at_ ? first_ : next_;
}

std::optional<ReleaseLog::Batch> ReleaseLog::due(TimePoint now) const {
    const std::uint64_t from = next_to_send(now);
    if (from > last_sequence()) return std::nullopt;
    const std::size_t count = std::min<std::size_t>(last_sequence() - from + 1, kMaxTicketsPerMessage);
    const auto begin = records_.begin() + static_cast<std::ptrdiff_t>(from - first_);
    return Batch{from, {begin, begin + static_cast<std::ptrdiff_t>(count)}};
}

void ReleaseLog::mark_sent(const Batch& batch, TimePoint now) {
    expect(!batch.records.empty() && batch.first_sequence >= first_ &&
               batch.first_sequence + batch.records.size() - 1 <= last_sequence(),
           "the batch is one that due() gave");
    // The clock runs for the oldest record. Later records do not reset it; otherwise a steady stream would never repeat
    // a lost one.
    if (batch.first_sequence == first_) repeat_at_ = now + kRepeatEvery;
    next_ = batch.first_sequence + batch.records.size();
    highest_sent_ = std::max(highest_sent_, next_ - 1);
}

bool ReleaseLog::acknowledge(std::uint64_t through_sequence, TimePoint now) {
    if (through_sequence > highest_sent_) return false;
    if (through_sequence < first_) return true;
    records_.erase(records_.begin(), records_.begin() + static_cast<std::ptrdiff_t>(through_sequence - first_ + 1));
    first_ = through_sequence + 1;
    reasons_.erase(reasons_.begin(), reasons_.lower_bound(first_));
    next_ = std::max(next_, first_);
    repeat_at_ = now + kRepeatEvery;
    return true;
}

void ReleaseLog::begin_anew() {
    std::map<std::uint64_t, std::string> reasons;
    for (auto& [sequence, why] : reasons_) reasons.emplace(sequence - first_ + 1, std::move(why));
    reasons_ = std::move(reasons);
    first_ = next_ = 1;
    highest_sent_ = 0;
    repeat_at_ = {};
}

std::optional<TimePoint> ReleaseLog::next_due() const {
    if (records_.empty()) return std::nullopt;
    if (next_ <= last_sequence()) return TimePoint{};
    return repeat_at_;
}

}  // namespace offramp
