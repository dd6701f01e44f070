#include "tests/simulation/simulated_run.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <future>
#include <thread>
#include <utility>

#include "common/wire/slab_view.hpp"
#include "tests/simulation/simulated_consumer.hpp"
#include "tests/simulation/simulated_producer.hpp"

namespace offramp::simulation {
namespace {

constexpr std::size_t kMostConsumers = 6;  // alive at a time
constexpr std::size_t kMostFillings = 2;   // at a time
constexpr std::uint32_t kGrantsAhead = 2;
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
      groups_(groups_of(setup)),
      batches_(setup.batches),
      contents_(setup.slabs) {
    shared_.reset();
    watch_.on_kill = [this](pid_t pid) { killed_.push_back(pid); };
    at_failpoints([this](std::string_view name) {
        note_counts();
        spoil(name);
    });
    set_disk_full(false);
    counts_.with_groups += groups() > 1 ? 1 : 0;
    begin_producer(make_stores(), {}, {});
    for (std::uint32_t i = 0; i < setup_.consumers * groups(); ++i) join(i % groups());
    for (int round = 0; setup_.begins_settled && round < kHandshakeRounds; ++round) {
        for (const auto& link : links_) link->deliver_all();
        step_broker();
        for (const auto& link : links_) link->deliver_all();
        for (const auto& consumer : consumers_) consumer->turn();
    }
}

SimulatedRun::~SimulatedRun() {
    at_failpoints({});
    consumers_.clear();
    filling_.clear();
}

AwaitedStores SimulatedRun::make_stores() const {
    AwaitedStores stores(groups());
    for (std::uint32_t group = 0; group < groups(); ++group)
        if (spills(group)) stores.add(group, spill_folder(group));
    return stores;
}

void SimulatedRun::begin_producer(AwaitedStores stores, std::vector<std::unique_ptr<RunRecords>> records,
                                  std::span<const Predecessor> predecessors) {
    auto producer = std::make_unique<Producer>(std::move(stores));
    producer->exchange = SlabExchange::make(kGrantsAhead, clock_);
    if (!records.empty()) epoch_ = records.front()->memory.epoch();
    std::vector<BrokerGroup> groups;
    for (std::uint32_t number = 0; number < groups_.size(); ++number) {
        auto group = std::make_unique<Producer::Group>(setup_.queue);
        RunMemory& memory = shared_.memory(number);
        if (records.empty()) {
            group->own_ledger = SlabLedger::format(memory.ledger(), epoch_);
            group->own_progress.emplace(memory.progress());
        } else {
            group->records = std::move(records[number]);
        }
        group->ledger = group->records ? &group->records->ledger : &*group->own_ledger;
        group->progress = group->records ? &group->records->progress : &*group->own_progress;
        if (setup_.keeps_letters)
            group->letters =
                std::make_unique<SimulatedLetters>(shared_, shared_.folder() + "/" + groups_[number].name + "-letters");
        BrokerOptions options = broker_options(number);
        options.progress = group->progress;
        if (group->letters) options.dead_letters = group->letters->writer();
        options.spill = producer->stores.by_group()[number];
        groups.push_back({*group->ledger, *group->port, memory.heartbeats(),
                          SlabMemory{.usable =
                                         [this](std::uint32_t) {
                                             await_egress();
                                             return true;
                                         },
                                     .bytes_of = [this](std::uint32_t slab) { return shared_.slab(slab); }},
                          std::move(options)});
        producer->groups.push_back(std::move(group));
    }
    producer->broker = std::make_unique<Broker>(std::move(groups), *producer->exchange, watch_, broker_clock_);
    if (!predecessors.empty()) RunRecovery::continue_in(*producer->broker, predecessors);
    if (setup_.inline_dispatch)
        producer->exchange->set_inline_dispatch([this] { return producer_->broker->dispatch_inline(); });
    producer_ = std::move(producer);
}

BrokerOptions SimulatedRun::broker_options(std::uint32_t group) {
    BrokerOptions options{.group = groups_[group].name,
                          .policy = groups_[group].policy,
                          .run_nonce = shared_.names().nonce,
                          .allowed_uids = {1000},
                          .visibility_timeout = kVisibilityTimeout,
                          .max_failures = setup_.max_failures,
                          .on_completed = [this](const PublishedSlab& slab) { on_completed(slab.first_batch); },
                          .on_dead_letter = [this](const PublishedSlab& slab) { on_dead_letter(slab.first_batch); },
                          .kill_stalled = setup_.kill_stalled};
    if (twin_ == Twin::HoldsPool) options.policy.optional = false;
    if (groups_[group].policy.drops_for_run())
        options.on_dropped = [this, group](const SlabTicket& ticket, std::span<const std::byte> bytes) {
            const SlabContents contents = SlabContents::read(bytes, shared_.names().nonce, ticket);
            if (twin_ != Twin::ListsNoDrop) on_listed(group, contents.batches.front().batch);
        };
    return options;
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
            for (const Contents& contents : contents_)
                for (GroupShare& share : batches_[contents.batch].shares) ++share.blame;
        kill_producer();
    }
    note_counts();
    if (listing_) throw Violation(fmt::format("batch {} is listed, and not dropped", listing_->second));
    end_wait();
    take_kills();
}

void SimulatedRun::as_consumer(SimulatedConsumer& consumer, const std::function<void()>& work) {
    try {
        const Acting as(consumer.fuse);
        work();
    } catch (const Died& died) {
        if (trace_) say(fmt::format("{} dies at {}", consumer.name(), died.failpoint));
        ++counts_.consumer_fuses;
        if (const auto index = consumer.index())
            shared_.mappings(consumer.group()).heartbeat(*index) = heartbeat_at_death(consumer.group(), *index);
        end_consumer(consumer, static_cast<std::uint32_t>(Random(delivered_.size()).next()));
    }
}

std::uint32_t SimulatedRun::granted() const { return kGrantsAhead - producer_->exchange->grants_wanted(setup_.slabs); }

bool SimulatedRun::has_batch() const {
    return producer_ && !input_ended_ && next_batch_ < setup_.batches && filling_.size() < kMostFillings &&
           !producer_->waiting.valid();
}

bool SimulatedRun::may_fill() const { return has_batch() && granted() > 0; }

// The egress's own thread waits. It runs only while this one waits for it, so that a seed decides everything.
void SimulatedRun::wait_for_slab() {
    if (!setup_.makes_room() || aborting_ || closed_ || !has_batch() || granted() > 0) return;
    if (trace_) say(fmt::format("batch {} waits for a slab", next_batch_));
    const std::shared_ptr<SlabExchange> exchange = producer_->exchange;
    const bool drops =
        std::ranges::any_of(groups_, [](const ConsumerGroup& group) { return group.policy.drops_for_run(); });
    const auto when_none = drops ? SlabExchange::WhenNone::DropOldest : SlabExchange::WhenNone::Wait;
    producer_->waiting =
        std::async(std::launch::async, [exchange, when_none] { return exchange->wait_for_slab(when_none); });
    while (!exchange->waiting()) std::this_thread::yield();
}

void SimulatedRun::await_egress() const {
    if (!producer_ || !producer_->waiting.valid()) return;
    while (producer_->exchange->waiting() && granted() > 0) std::this_thread::yield();
}

void SimulatedRun::end_wait() {
    await_egress();
    if (!producer_ || !producer_->waiting.valid() || producer_->exchange->waiting()) return;
    auto loan = producer_->waiting.get();
    if (!loan) throw Violation("a granted slab is not there");
    fill(std::move(*loan));
}

void SimulatedRun::fill() {
    auto loan = producer_->exchange->wait_for_slab();
    if (!loan) throw Violation("a granted slab is not there");
    fill(std::move(*loan));
}

void SimulatedRun::fill(WriteLoan loan) {
    const std::uint32_t slab = loan.slab();
    for (const auto& consumer : consumers_)
        if (consumer->reads(slab))
            throw Violation(fmt::format("slab {} is filled while {} reads it", slab, consumer->name()));
    const std::uint64_t batch = next_batch_++;
    contents_[slab] = {loan.generation(), batch};
    if (trace_) say(fmt::format("slab {} is filled with batch {}", slab, batch));
    SlabWriter writer(loan.bytes(), shared_.layout());
    writer.begin({.run_nonce = shared_.names().nonce, .epoch = epoch_, .slab = slab, .generation = loan.generation()});
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
    filling_.push_back({std::move(loan), batch, std::move(published)});
}

void SimulatedRun::publish() {
    Filling next = std::move(filling_.front());
    filling_.pop_front();
    if (trace_) say(fmt::format("batch {} is published in slab {}", next.batch, next.loan.slab()));
    if (twin_ == Twin::LateCopy && next.batch % 3 == 0) late_copy_ = next.loan.slab();
    producer_->exchange->publish(std::move(next.loan), std::move(next.published));
}

void SimulatedRun::abandon_newest() {
    Filling& newest = filling_.back();
    if (trace_) say(fmt::format("slab {} is abandoned", newest.loan.slab()));
    next_batch_ = newest.batch;
    dropped_before_ = newest.published.dropped;
    filling_.pop_back();
}

void SimulatedRun::drop() {
    if (groups() > 1 || setup_.makes_room() || !filling_.empty() || !has_batch() || granted() > 0) return;
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
        producer_->stores.await();
    });
    if (!producer_) return;
    for (const auto& group : producer_->groups)
        group->writes_letter = group->letters && group->ledger->count(SlabState::DeadLettered) > 0;
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
    note_counts();
    // Counted, perhaps not taken: the next producer takes the step and reports nothing of it.
    for (std::uint64_t number = 0; number < batches_.size(); ++number) {
        if (is_completed(batches_[number]) && !batches_[number].completed) on_completed(number);
        if (batches_[number].lost_by == CountedStep::DeadLetter && !batches_[number].dead_letter)
            on_dead_letter(number);
    }
    RunProgress& progress = shared_.memory(0).progress();
    if (twin_ == Twin::LosesLastCount && progress.current > 1) noted_[0] = --progress.current;
    for (std::uint32_t group = 0; twin_ == Twin::ForgetsLost && group < groups(); ++group)
        for (SlabEntry& entry : shared_.memory(group).ledger().entries) entry.lost = 0;
    filling_.clear();
    listing_.reset();
    input_ended_ = false;
    producer_fuse_ = {};
    // No process has this pid and this start time.
    for (std::uint32_t group = 0; group < groups(); ++group) shared_.header(group).producer_start_time = 1;
    for (const auto& link : links_) link->lose_producer(static_cast<std::size_t>(next_pid_) % 3);
    links_.clear();
    producer_.reset();
    if (next_pid_ % 2 == 0) tear_writes();
    if (twin_ == Twin::ForgetsLostFile) spoil_files(twin_);
}

void SimulatedRun::recover() {
    if (producer_) return;
    ++counts_.recoveries;
    as_producer([&] {
        try {
            AwaitedStores stores = make_stores();
            RunRecovery recovery(shared_.recovery_layout(groups_));
            recovery.take_up({.batch = kBatch, .items = std::uint64_t{setup_.batches} * kBatch}, stores.by_group());
            note_counts();
            check_predecessor(recovery);
            const std::vector<Predecessor> predecessors = recovery.by_group();
            next_batch_ = predecessors.front().totals.items_through / kBatch;
            dropped_before_ = 0;
            for (std::uint64_t batch = next_batch_; batch < batches_.size(); ++batch) batches_[batch].dropped = false;
            begin_producer(std::move(stores), std::move(recovery).resume(), predecessors);
        } catch (const Died&) {
            producer_.reset();
            for (std::uint32_t group = 0; group < groups(); ++group) shared_.header(group).producer_start_time = 1;
            producer_fuse_ = {};
            throw;
        }
    });
    if (trace_ && producer_) say(fmt::format("a producer recovers the run as epoch {}", epoch_));
    if (producer_) check_conservation();
}

void SimulatedRun::write_letter(std::uint32_t who, std::uint32_t how) {
    if (!producer_ || !producer_->groups[who % groups()]->writes_letter) return;
    const std::uint32_t number = who % groups();
    Producer::Group& group = *producer_->groups[number];
    group.writes_letter = false;
    const auto disk = how % 4 == 0 ? SimulatedLetters::Disk::Fails : SimulatedLetters::Disk::Writes;
    const std::uint32_t slab = group.letters->write_one(disk, twin_ == Twin::SpoilsLetter);
    const std::uint64_t batch = contents_[slab].batch;
    using Letter = GroupShare::Letter;
    share(number, batch).letter = disk == SimulatedLetters::Disk::Fails ? Letter::Failed : Letter::Written;
    ++(disk == SimulatedLetters::Disk::Fails ? counts_.letters_lost : counts_.letters);
    if (trace_)
        say(fmt::format("the letter of batch {}{} {}", batch, in_group(number),
                        disk == SimulatedLetters::Disk::Fails ? "cannot be written" : "is written"));
}

// --- consumers ---

std::shared_ptr<Link> SimulatedRun::connect(pid_t pid, std::uint32_t group) {
    links_.push_back(
        std::make_shared<Link>(producer_->groups[group]->hub.consumer_port({pid, 1000, 1000}), setup_.queue, twin_));
    return links_.back();
}

void SimulatedRun::join(std::uint32_t group) {
    if (!producer_ || closed_) return;
    const pid_t pid = next_pid_++;
    watch_.begin(pid);
    consumers_.push_back(std::make_unique<SimulatedConsumer>(*this, group, pid));
    if (trace_) say(consumers_.back()->name() + " joins" + in_group(group));
}

// The process is gone: killed, or at its end. Its heartbeat record stays as it was; some of its last messages arrive.
void SimulatedRun::end_consumer(SimulatedConsumer& consumer, std::uint32_t how) {
    consumer.blame();
    const auto index = consumer.index();
    SlabMappings& mappings = shared_.mappings(consumer.group());
    const HeartbeatRecord kept = index ? mappings.heartbeat(*index) : HeartbeatRecord{};
    const pid_t pid = consumer.pid();
    if (consumer.link()) consumer.link()->orphan(how % 4, how / 4 % 4);
    std::erase_if(consumers_, [&](const auto& other) { return other.get() == &consumer; });
    if (index) mappings.heartbeat(*index) = kept;
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
            if (may_fill())
                fill();
            else
                wait_for_slab();
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
        case Action::WriteLetter:
            write_letter(who, how);
            break;
        case Action::FillDisk:
            set_disk_full(!is_disk_full() && how % 2 == 0);
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
            if (consumers_.size() < kMostConsumers + groups()) join(how % groups());
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
    if (twin_ == Twin::SpoilsFile) spoil_files(twin_);
    check();
}

void SimulatedRun::fair_round() {
    recover();
    if (aborting_ && !closed_) {
        filling_.clear();
        if (producer_->waiting.valid()) {
            producer_->exchange->stop();
            producer_->waiting.get();
        }
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
    for (std::uint32_t group = 0; group < groups(); ++group) write_letter(group, 1);
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
    set_disk_full(false);
    recover();
    for (const auto& consumer : consumers_) {
        consumer->stopped = false;
        consumer->fuse = {};
    }
    // One of each group that does not leave.
    for (std::uint32_t group = 0; group < groups(); ++group) join(group);
    fair_since_ = clock_.now();
    aborting_ = setup_.abort_at_end && !closed_;
    if (aborting_) {
        ++counts_.aborts;
        producer_->broker->abort();
    }
    for (int round = 0; round < kFairRounds; ++round) {
        const auto progress = [this] {
            std::uint64_t free = delivered_.size();
            for (const auto& group : producer_->groups) free += group->ledger->count(SlabState::Free);
            return free;
        };
        const std::uint64_t before = progress();
        fair_round();
        if (closed_ && consumers_.empty()) return check_end();
        clock_.advance(before != progress() ? kRound : kIdleRound);
    }
    std::string left;
    for (const auto& consumer : consumers_) left += "; " + consumer->describe();
    for (std::uint32_t group = 0; group < groups(); ++group)
        for (std::uint32_t slab = 0; slab < setup_.slabs; ++slab)
            left += fmt::format("; slab {}{} {}", slab, in_group(group),
                                to_string(producer_->ledger(group).word(slab).state));
    throw Violation("the run does not end" + left);
}

void SimulatedRun::say(const std::string& what) const {
    std::printf("%10.3f s  %s\n", std::chrono::duration<double>(clock_.now().time_since_epoch()).count() - 1000,
                what.c_str());
}

}  // namespace offramp::simulation
