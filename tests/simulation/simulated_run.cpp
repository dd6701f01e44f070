#include "tests/simulation/simulated_run.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

#include "common/wire/slab_view.hpp"
#include "tests/simulation/simulated_consumer.hpp"
#include "tests/simulation/simulated_producer.hpp"

namespace offramp::simulation {
namespace {

constexpr std::size_t kMostConsumers = 6;  // alive at a time
constexpr std::size_t kMostFillings = 2;   // at a time
constexpr int kHandshakeRounds = 4;
constexpr int kFairRounds = 2000;  // more than any history needs
constexpr std::chrono::milliseconds kRound{20};
constexpr std::chrono::milliseconds kIdleRound{200};

}  // namespace

// --- the producer ---

SimulatedRun::SimulatedRun(SharedObjects& shared, const Setup& setup, Twin twin, Counts& counts, bool trace)
    : shared_(shared),
      setup_(setup),
      twin_(twin),
      counts_(counts),
      trace_(trace),
      batches_(setup.batches),
      contents_(setup.slabs) {
    shared_.reset();
    watch_.on_kill = [this](pid_t pid) { killed_.push_back(pid); };
    begin_producer(nullptr, nullptr);
    for (std::uint32_t i = 0; i < setup_.consumers; ++i) join();
    for (int round = 0; setup_.begins_settled && round < kHandshakeRounds; ++round) {
        for (const auto& link : links_) link->deliver_all();
        step_broker();
        for (const auto& link : links_) link->deliver_all();
        for (const auto& consumer : consumers_) consumer->turn();
    }
}

SimulatedRun::~SimulatedRun() {
    consumers_.clear();
    filling_.clear();
}

void SimulatedRun::begin_producer(std::unique_ptr<RunRecords> records, const Predecessor* predecessor) {
    auto producer = std::make_unique<Producer>(setup_.queue);
    producer->exchange = SlabExchange::make(SlabExchange::kAheadByPool, clock_);
    producer->records = std::move(records);
    ProgressLog* progress = nullptr;
    if (producer->records) {
        producer->ledger = &producer->records->ledger;
        progress = &producer->records->progress;
        epoch_ = producer->records->memory.epoch();
    } else {
        producer->own_ledger = SlabLedger::format(shared_.memory().ledger(), epoch_);
        producer->own_progress.emplace(shared_.memory().progress());
        producer->ledger = &*producer->own_ledger;
        progress = &*producer->own_progress;
    }
    BrokerOptions options{.run_nonce = shared_.names().nonce,
                          .allowed_uids = {1000},
                          .visibility_timeout = kVisibilityTimeout,
                          .max_failures = setup_.max_failures,
                          .progress = progress,
                          .on_completed = [this](const PublishedSlab& slab) { on_completed(slab.first_batch); },
                          .on_dead_letter = [this](const PublishedSlab& slab) { on_dead_letter(slab.first_batch); },
                          .kill_stalled = setup_.kill_stalled};
    producer->broker = std::make_unique<Broker>(
        *producer->ledger, *producer->port, *producer->exchange, watch_, clock_, shared_.memory().heartbeats(),
        SlabMemory{.usable = [](std::uint32_t) { return true; },
                   .bytes_of = [this](std::uint32_t slab) { return shared_.slab(slab); }},
        std::move(options));
    if (predecessor != nullptr) RunRecovery::continue_in(*producer->broker, {predecessor, 1});
    if (setup_.inline_dispatch)
        producer->exchange->set_inline_dispatch([this] { return producer_->broker->dispatch_inline(); });
    producer_ = std::move(producer);
}

void SimulatedRun::as_producer(const std::function<void()>& work) {
    try {
        const Acting as(producer_fuse_);
        work();
    } catch (const Died& died) {
        if (trace_) say(fmt::format("the producer dies at {}", died.failpoint));
        ++counts_.producer_fuses;
        // The holder repeats its release, and the failure counts twice (slab_ledger.hpp).
        if (died.failpoint == std::string_view("ledger.fail.counted"))
            for (const Contents& contents : contents_) ++batches_[contents.batch].blame;
        kill_producer();
    }
    take_kills();
}

void SimulatedRun::as_consumer(SimulatedConsumer& consumer, const std::function<void()>& work) {
    try {
        const Acting as(consumer.fuse);
        work();
    } catch (const Died& died) {
        if (trace_) say(fmt::format("{} dies at {}", consumer.name(), died.failpoint));
        ++counts_.consumer_fuses;
        if (const auto index = consumer.index()) shared_.mappings().heartbeat(*index) = heartbeat_at_death(*index);
        end_consumer(consumer, static_cast<std::uint32_t>(Random(delivered_.size()).next()));
    }
}

// A grant is a slab being filled that neither this producer's hands nor the exchange's have seen yet.
bool SimulatedRun::may_fill() const {
    if (!producer_ || input_ended_ || next_batch_ >= setup_.batches || filling_.size() >= kMostFillings) return false;
    std::uint32_t granted = producer_->ledger->count(SlabState::Filling);
    granted -= static_cast<std::uint32_t>(filling_.size());
    for (const auto& [slab, generation] : left_) {
        const SlabWord word = producer_->ledger->word(slab);
        if (word.state == SlabState::Filling && word.generation == generation) --granted;
    }
    return granted > 0;
}

void SimulatedRun::fill() {
    auto loan = producer_->exchange->wait_for_slab();
    if (!loan) throw Violation("a granted slab is not there");
    const std::uint32_t slab = loan->slab();
    std::erase_if(left_, [&](const auto& entry) { return entry.first == slab; });
    for (const auto& consumer : consumers_)
        if (consumer->reads(slab))
            throw Violation(fmt::format("slab {} is filled while {} reads it", slab, consumer->name()));
    const std::uint64_t batch = next_batch_++;
    contents_[slab] = {loan->generation(), batch};
    if (trace_) say(fmt::format("slab {} is filled with batch {}", slab, batch));
    SlabWriter writer(loan->bytes(), shared_.layout());
    writer.begin({.run_nonce = shared_.names().nonce, .epoch = epoch_, .slab = slab, .generation = loan->generation()});
    std::array<SampleEntry, kBatch> samples;
    for (std::uint32_t row = 0; row < kBatch; ++row)
        samples[row] = {.item = batch * kBatch + row, .key = {}, .empty = row == empty_row(batch)};
    writer.add_batch(batch, 0, samples);
    const std::span<std::byte> payload = writer.tensor_rows(0, 0, kBatch);
    for (std::size_t i = 0; i < kPayloadWords; ++i) {
        const std::uint64_t word = payload_word(batch, i);
        std::memcpy(payload.data() + i * sizeof word, &word, sizeof word);
    }
    writer.finish(to_ns(clock_.now()));
    writer.write_filled_at(to_ns(clock_.now()));
    PublishedSlab published{.slab = slab,
                            .first_batch = batch,
                            .samples = samples_of(batch),
                            .batches_ended = 1,
                            .bytes = payload.size(),
                            .filled_at_ns = to_ns(clock_.now()),
                            .items_through = (batch + 1) * kBatch,
                            .skipped = kBatch - samples_of(batch),
                            .dropped = std::exchange(dropped_before_, 0)};
    for (std::uint32_t row = 0; row < kBatch; ++row)
        if (row != empty_row(batch)) append_item(published.items, batch * kBatch + row);
    filling_.push_back({std::move(*loan), batch, std::move(published)});
}

void SimulatedRun::publish() {
    Filling next = std::move(filling_.front());
    filling_.pop_front();
    if (trace_) say(fmt::format("batch {} is published in slab {}", next.batch, next.loan.slab()));
    left_.emplace_back(next.loan.slab(), next.loan.generation());
    if (twin_ == Twin::LateCopy && next.batch % 3 == 0) late_copy_ = next.loan.slab();
    producer_->exchange->publish(std::move(next.loan), std::move(next.published));
}

void SimulatedRun::abandon_newest() {
    Filling& newest = filling_.back();
    if (trace_) say(fmt::format("slab {} is abandoned", newest.loan.slab()));
    left_.emplace_back(newest.loan.slab(), newest.loan.generation());
    next_batch_ = newest.batch;
    dropped_before_ = newest.published.dropped;
    filling_.pop_back();
}

void SimulatedRun::drop() {
    if (!producer_ || input_ended_ || !filling_.empty() || next_batch_ >= setup_.batches || may_fill()) return;
    batches_[next_batch_++].dropped = true;
    dropped_before_ += kBatch;
    ++counts_.dropped;
}

void SimulatedRun::end_input() {
    if (!producer_ || input_ended_ || !filling_.empty() || next_batch_ < setup_.batches) return;
    input_ended_ = true;
    producer_->exchange->finish();
}

void SimulatedRun::step_broker() {
    if (!producer_ || closed_) return;
    as_producer([&] {
        producer_->broker->step();
        if (setup_.inline_dispatch) producer_->broker->patience();
    });
    if (!producer_) return;
    check_conservation();
    closed_ = producer_->broker->ended();
    if (!closed_) return;
    const auto consumers = producer_->broker->report().consumers;
    closed_early_ = std::ranges::any_of(consumers, [](const ConsumerReport& each) { return each.end.empty(); });
    if (closed_early_ && fair_since_ && clock_.now() - *fair_since_ >= BrokerOptions{}.disconnect_timeout)
        throw Violation("a consumer that behaves did not leave in time");
    if (trace_) say(closed_early_ ? "the run has ended before its consumers" : "the run has ended");
}

void SimulatedRun::kill_producer() {
    if (!producer_ || closed_) return;
    const ProgressLog progress(shared_.memory().progress());
    const SlabLedger::LastStep last = progress.last_step();
    if (const auto batch = last.kind == CountedStep::None ? std::nullopt : batch_in(last.slab, last.generation)) {
        // Counted, perhaps not taken: the next producer takes the step and reports nothing of it.
        if (last.kind == CountedStep::Complete && !batches_[*batch].completed) on_completed(*batch);
        if (last.kind == CountedStep::DeadLetter && !batches_[*batch].dead_letter) on_dead_letter(*batch);
    }
    if (twin_ == Twin::LosesLastCount && shared_.memory().progress().current > 1) --shared_.memory().progress().current;
    filling_.clear();
    left_.clear();
    input_ended_ = false;
    producer_fuse_ = {};
    shared_.header().producer_start_time = 1;  // no process has this pid and this start time
    for (const auto& link : links_) link->lose_producer(static_cast<std::size_t>(next_pid_) % 3);
    links_.clear();
    producer_.reset();
}

void SimulatedRun::recover() {
    if (producer_) return;
    ++counts_.recoveries;
    as_producer([&] {
        try {
            RunRecovery recovery(shared_.recovery_layout());
            recovery.take_up({.batch = kBatch, .items = std::uint64_t{setup_.batches} * kBatch}, nullptr);
            const Predecessor predecessor = recovery.predecessor();
            next_batch_ = predecessor.totals.items_through / kBatch;
            dropped_before_ = 0;
            for (std::uint64_t batch = next_batch_; batch < batches_.size(); ++batch) batches_[batch].dropped = false;
            begin_producer(std::move(std::move(recovery).resume().front()), &predecessor);
        } catch (const Died&) {
            producer_.reset();
            shared_.header().producer_start_time = 1;
            producer_fuse_ = {};
            throw;
        }
    });
    if (trace_ && producer_) say(fmt::format("a producer recovers the run as epoch {}", epoch_));
    if (producer_) check_conservation();
}

// --- consumers ---

std::shared_ptr<Link> SimulatedRun::connect(pid_t pid) {
    links_.push_back(std::make_shared<Link>(producer_->hub.consumer_port({pid, 1000, 1000}), setup_.queue, twin_));
    return links_.back();
}

void SimulatedRun::join() {
    if (!producer_ || closed_) return;
    const pid_t pid = next_pid_++;
    watch_.begin(pid);
    consumers_.push_back(std::make_unique<SimulatedConsumer>(*this, pid));
    if (trace_) say(consumers_.back()->name() + " joins");
}

// The process is gone: killed, or at its end. Its heartbeat record stays as it was; some of its last messages arrive.
void SimulatedRun::end_consumer(SimulatedConsumer& consumer, std::uint32_t how) {
    consumer.blame();
    const auto index = consumer.index();
    const HeartbeatRecord kept = index ? shared_.mappings().heartbeat(*index) : HeartbeatRecord{};
    const pid_t pid = consumer.pid();
    if (consumer.link()) consumer.link()->orphan(how % 4, how / 4 % 4);
    std::erase_if(consumers_, [&](const auto& other) { return other.get() == &consumer; });
    if (index) shared_.mappings().heartbeat(*index) = kept;
    unnoticed_.push_back(pid);
    if (how / 16 % 2 == 0) notice_death(static_cast<std::uint32_t>(unnoticed_.size()) - 1);
}

void SimulatedRun::take_kills() {
    for (const pid_t pid : std::exchange(killed_, {})) {
        const auto found = std::ranges::find_if(consumers_, [&](const auto& each) { return each->pid() == pid; });
        if (found == consumers_.end()) continue;
        if (clock_.now() - (*found)->last_sign() < kVisibilityTimeout)
            throw Violation((*found)->name() + " is killed, although it showed progress");
        ++counts_.stalled_kills;
        if (trace_) say((*found)->name() + " is killed: it is stalled");
        end_consumer(**found, 31);
    }
}

void SimulatedRun::notice_death(std::uint32_t who) {
    if (unnoticed_.empty() || twin_ == Twin::DeathUnnoticed) return;
    const auto at = unnoticed_.begin() + who % unnoticed_.size();
    watch_.announce_death(*at);
    unnoticed_.erase(at);
}

SimulatedConsumer* SimulatedRun::living(std::uint32_t who, bool also_stopped) {
    if (consumers_.empty()) return nullptr;
    SimulatedConsumer& consumer = *consumers_[who % consumers_.size()];
    return consumer.stopped && !also_stopped ? nullptr : &consumer;
}

void SimulatedRun::deliver(std::uint32_t who, std::uint32_t how) {
    if (links_.empty()) return;
    const auto queue = static_cast<Link::Queue>(std::min(how % 8, static_cast<std::uint32_t>(Link::Queue::All)));
    links_[who % links_.size()]->deliver(queue, how / 8 % 2 == 0 ? 64 : how / 16 % 4 + 1);
    std::erase_if(links_, [](const auto& link) { return link->over(); });
}

void SimulatedRun::watch(std::chrono::nanoseconds time) {
    constexpr std::chrono::nanoseconds kBetweenSteps = std::chrono::milliseconds(400);
    for (; time > std::chrono::nanoseconds{}; time -= kBetweenSteps) {
        clock_.advance(std::min(time, kBetweenSteps));
        step_broker();
    }
}

// --- the scheduler's choices ---

void SimulatedRun::take(const Step& step) {
    ++counts_.steps;
    const std::uint32_t who = step.who;
    const std::uint32_t how = step.how;
    switch (step.action) {
        case Action::Fill:
            if (may_fill()) fill();
            break;
        case Action::Publish:
            if (filling_.empty()) break;
            if (how % 16 == 0)
                abandon_newest();
            else
                as_producer([&] { publish(); });
            break;
        case Action::Drop:
            drop();
            break;
        case Action::EndInput:
            end_input();
            break;
        case Action::StepBroker:
            step_broker();
            break;
        case Action::Deliver:
            deliver(who, how);
            break;
        case Action::Turn:
            if (auto* const consumer = living(who))
                as_consumer(*consumer, [&] {
                    if (!consumer->turn()) return;
                    if (trace_) say(consumer->name() + " ends");
                    end_consumer(*consumer, how | 15);
                });
            break;
        case Action::Take:
            if (auto* const consumer = living(who)) as_consumer(*consumer, [&] { consumer->take(); });
            break;
        case Action::Progress:
            if (auto* const consumer = living(who)) consumer->progress();
            break;
        case Action::Finish:
            if (auto* const consumer = living(who)) as_consumer(*consumer, [&] { consumer->finish(how); });
            break;
        case Action::Wait:
            clock_.advance(std::chrono::milliseconds(1 + how % 120));
            break;
        case Action::Watch:
            watch(std::chrono::milliseconds(how % 4 == 0 ? 6000 : how % 2500));
            break;
        case Action::Sleep:
            clock_.advance(std::chrono::seconds(how % 4 == 0 ? 600 : how % 8));
            break;
        case Action::Join:
            if (consumers_.size() < kMostConsumers) join();
            break;
        case Action::Leave:
            if (auto* const consumer = living(who)) as_consumer(*consumer, [&] { consumer->leave(); });
            break;
        case Action::Stop:
            if (auto* const consumer = living(who)) {
                consumer->stopped = true;
                if (twin_ == Twin::StoppedIsDead) watch_.announce_death(consumer->pid());
            }
            break;
        case Action::Continue:
            if (auto* const consumer = living(who, true)) consumer->stopped = false;
            break;
        case Action::KillConsumer:
            if (auto* const consumer = living(who, true)) {
                ++counts_.consumer_kills;
                if (trace_) say(consumer->name() + " is killed");
                end_consumer(*consumer, how);
            }
            break;
        case Action::FuseConsumer:
            if (auto* const consumer = living(who)) consumer->fuse.left = 1 + how % 10;
            break;
        case Action::NoticeDeath:
            notice_death(who);
            break;
        case Action::KillProducer:
            if (producer_ && !closed_) {
                ++counts_.producer_kills;
                if (trace_) say("the producer is killed");
                kill_producer();
            }
            break;
        case Action::FuseProducer:
            producer_fuse_.left = 1 + how % 24;
            break;
        case Action::Recover:
            recover();
            break;
    }
    if (late_copy_) {
        shared_.slab(*late_copy_)[shared_.layout().header_bytes] ^= std::byte{1};
        late_copy_.reset();
    }
    check();
}

void SimulatedRun::fair_round() {
    recover();
    if (aborting_ && !closed_) {
        filling_.clear();
    } else {
        while (may_fill()) fill();
        while (!filling_.empty()) as_producer([&] { publish(); });
    }
    if (aborting_ && !std::exchange(input_ended_, true)) producer_->exchange->finish();
    end_input();
    while (!unnoticed_.empty() && twin_ != Twin::DeathUnnoticed) notice_death(0);
    for (const auto& link : links_) link->deliver_all();
    std::erase_if(links_, [](const auto& link) { return link->over(); });
    step_broker();
    for (const auto& link : links_) link->deliver_all();
    for (std::size_t i = 0; i < consumers_.size();) {
        SimulatedConsumer& consumer = *consumers_[i];
        if (consumer.turn()) {
            if (trace_) say(consumer.name() + " ends");
            end_consumer(consumer, 15);
            continue;
        }
        consumer.take();
        consumer.progress();
        consumer.finish(15);
        ++i;
    }
    check();
}

void SimulatedRun::finish() {
    if (trace_) say("from here on every process behaves");
    producer_fuse_ = {};
    recover();
    for (const auto& consumer : consumers_) {
        consumer->stopped = false;
        consumer->fuse = {};
    }
    // One that does not leave.
    join();
    fair_since_ = clock_.now();
    aborting_ = setup_.abort_at_end && !closed_;
    if (aborting_) {
        ++counts_.aborts;
        producer_->broker->abort();
    }
    for (int round = 0; round < kFairRounds; ++round) {
        const std::uint64_t published = producer_->ledger->count(SlabState::Free) + delivered_.size();
        fair_round();
        if (closed_ && consumers_.empty()) return check_end();
        const bool moved = published != producer_->ledger->count(SlabState::Free) + delivered_.size();
        clock_.advance(moved ? kRound : kIdleRound);
    }
    std::string left;
    for (const auto& consumer : consumers_) left += "; " + consumer->describe();
    for (std::uint32_t slab = 0; slab < setup_.slabs; ++slab)
        left += fmt::format("; slab {} {}", slab, to_string(producer_->ledger->word(slab).state));
    throw Violation("the run does not end" + left);
}

void SimulatedRun::say(const std::string& what) const {
    std::printf("%10.3f s  %s\n", std::chrono::duration<double>(clock_.now().time_since_epoch()).count() - 1000,
                what.c_str());
}

}  // namespace offramp::simulation
