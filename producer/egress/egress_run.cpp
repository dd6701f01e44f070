#include "producer/egress/egress_run.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/base/error.hpp"
#include "common/base/failpoint.hpp"
#include "common/shm/run_files.hpp"
#include "common/shm/shared_region.hpp"
#include "common/transport/ports.hpp"
#include "common/wire/slab_view.hpp"
#include "producer/broker/broker.hpp"
#include "producer/recovery/run_recovery.hpp"

namespace offramp {

EgressRun::EgressRun(RunDirectoryLock& place, Device& device, DeviceTimeline& timeline, EgressRunOptions options,
                     RunListener& listener, ItemListener& items)
    : place_(place),
      device_(device),
      options_(std::move(options)),
      listener_(listener),
      items_(items),
      pinning_(device, options_.pinning) {
    exchange_->before_publishing([this](const PublishedSlab& slab) { items_.before_publishing(slab); });
    if (!options_.groups.empty()) {
        std::vector<std::string> names;
        for (const ConsumerGroup& group : options_.groups) names.push_back(group.name);
        place_.serve_groups(names);
    }
    if (has_consumers(options_.slabs)) place_.is_recovered() ? recover() : begin();
    if (offramp::has_pool(options_.slabs)) make_pool();
    if (has_consumers(options_.slabs)) broker_ = start_broker();
    stream_ = make_stream(timeline);
}

std::vector<ConsumerGroup> EgressRun::groups() const {
    if (!options_.groups.empty()) return options_.groups;
    return {{.policy = {.when_full = options_.when_full}, .work = options_.broker.work}};
}

void EgressRun::add_group(const ConsumerGroup& group, std::unique_ptr<RunRecords> records,
                          std::shared_ptr<SpillStore> spill) {
    const Endpoint endpoint = group.name.empty() ? place_.endpoint() : place_.endpoint().of_group(group.name);
    const auto consumers = static_cast<std::uint32_t>(records->memory.heartbeats().size());
    groups_.push_back(std::make_unique<Group>(
        Group{.of = group,
              .endpoint = endpoint,
              .records = std::move(records),
              .heartbeats = std::make_unique<HeartbeatSnapshot>(endpoint.names.heartbeats(), consumers),
              .spill = std::move(spill)}));
}

void EgressRun::begin() {
    for (const ConsumerGroup& group : groups())
        add_group(group,
                  std::make_unique<RunRecords>(RunMemory(place_.names().of_group(group.name), options_.layout,
                                                         options_.spans, options_.max_consumers,
                                                         place_.endpoint().epoch, place_.readable_by_group())),
                  make_spill(group));
    RunProgress& progress = groups_.front()->records->memory.progress();
    progress.producers = 1;
    listener_.on_begin(progress);
}

// Changes nothing until it is certain that this producer continues exactly where its predecessor stopped.
void EgressRun::recover() {
    RunRecovery recovery({place_.names(), options_.layout, options_.spans, options_.max_consumers, groups()});
    place_.serve_as(recovery.epoch());
    listener_.check_input(recovery.progress());
    std::vector<std::shared_ptr<SpillStore>> spills;
    for (const ConsumerGroup& group : groups()) spills.push_back(make_spill(group));
    recovery.take_up({.batch = options_.stream.batch, .items = options_.items, .starts = options_.batch_starts},
                     spills);
    listener_.check_kept(recovery.progress(), recovery.predecessor());
    predecessor_ = recovery.predecessor();
    const std::vector<Predecessor> by_group = recovery.by_group();
    std::vector<std::unique_ptr<RunRecords>> records = std::move(recovery).resume();
    for (std::size_t i = 0; i < records.size(); ++i) {
        add_group(groups()[i], std::move(records[i]), std::move(spills[i]));
        groups_.back()->predecessor = by_group[i];
    }
}

void EgressRun::make_pool() {
    SlabPool::Pin pin = [this](std::span<std::byte> span) { return pinning_.lock(span); };
    exchange_->expect_memory();
    SlabPool::Listener news{[this] { exchange_->note_memory(); },
                            [this](std::exception_ptr error) {
                                listener_.on_pool_failure(std::move(error));
                                exchange_->stop();  // wakes every thread that waits for a slab
                            }};
    pool_ = place_.is_recovered() ? RunRecovery::take_slabs(place_.names(), options_.spans, std::move(pin),
                                                            place_.readable_by_group(), std::move(news))
                                  : std::make_unique<SlabPool>(place_.names(), options_.spans, std::move(pin),
                                                               place_.readable_by_group(), std::move(news));
}

std::unique_ptr<BrokerThread> EgressRun::start_broker() {
    std::vector<BrokerOptions> options;
    for (const auto& group : groups_) options.push_back(broker_options(*group));
    return std::make_unique<BrokerThread>(
        [this, options] { return make_broker(options); }, *exchange_,
        BrokerThread::Listener{.on_end = [this] { listener_.on_delivery_end(); },
                               .on_failure = [this] { listener_.on_broker_failure(); }});
}

BrokerOptions EgressRun::broker_options(const Group& group) {
    BrokerOptions options = options_.broker;
    options.group = group.of.name;
    options.policy = group.of.policy;
    options.work = group.of.work;
    options.run_nonce = place_.names().nonce;
    options.progress = &group.records->progress;
    options.on_completed = [this](const PublishedSlab& slab) { items_.on_completed(slab); };
    options.on_dead_letter = [this](const PublishedSlab& slab) { items_.on_dead_letter(slab); };
    options.dead_letters = make_dead_letter_writer(group.endpoint.run_dir);
    options.spill = group.spill;
    if (group.of.policy.drops_for_run())
        options.on_dropped = [this, name = group.of.name](const SlabTicket& ticket, std::span<const std::byte> bytes) {
            report_dropped(ticket, bytes, name);
        };
    return options;
}

BrokerThread::Parts EgressRun::make_broker(const std::vector<BrokerOptions>& options) {
    BrokerThread::Parts parts;
    std::vector<BrokerGroup> groups;
    for (std::size_t i = 0; i < groups_.size(); ++i) {
        Group& group = *groups_[i];
        parts.ports.push_back(make_zmq_broker_port(group.endpoint, place_.readable_by_group()));
        // Without a pool, each filling creates its slab's memory.
        const SlabMemory memory{
            [this](std::uint32_t slab) { return !pool_ || pool_->usable(slab); },
            [this](std::uint32_t slab) { return pool_ ? pool_->bytes_of(slab) : std::span<std::byte>{}; },
            [&group] { group.heartbeats->refresh(); }};
        groups.push_back({group.records->ledger, *parts.ports.back(), group.heartbeats->records(), memory, options[i]});
    }
    parts.broker = std::make_unique<Broker>(std::move(groups), *exchange_, watch_, clock_);
    if (!place_.is_recovered()) return parts;
    std::vector<Predecessor> predecessors;
    for (const auto& group : groups_) predecessors.push_back(group->predecessor);
    RunRecovery::continue_in(*parts.broker, predecessors);
    return parts;
}

// Dead letters go to the run's directory, or to the group's.
std::shared_ptr<DeadLetterWriter> EgressRun::make_dead_letter_writer(const std::string& folder) {
    const auto bytes_of = [this](std::uint32_t slab) -> DeadLetterWriter::SlabBytes {
        if (pool_ && pool_->usable(slab)) return {pool_->bytes_of(slab), nullptr};
        // The slab is either a dead letter of the predecessor that this pool has not mapped yet, or, without a pool, a
        // segment of its own that stays until the slab is filled again.
        const SpanPlan& spans = options_.spans;
        const std::uint32_t span = pool_ ? spans.span_of(slab) : slab;
        const std::size_t span_bytes = pool_ ? spans.span_bytes(span) : options_.layout.slab_bytes;
        auto region = std::make_shared<SharedRegionView>(
            SharedRegionView::attach(place_.names().span(span), SharedRegionView::Access::ReadOnly, span_bytes));
        const auto bytes = region->bytes().subspan(pool_ ? spans.offset_in_span(slab) : 0, options_.layout.slab_bytes);
        return {bytes, std::move(region)};
    };
    return std::make_shared<DeadLetterWriter>(DeadLetterWriter::Settings{.folder = folder + "/dead-letters",
                                                                         .run_id = place_.names().run_id,
                                                                         .run_nonce = place_.names().nonce,
                                                                         .bytes_of = bytes_of,
                                                                         .on_outcome = [this] { exchange_->wake(); }});
}

// In the run's directory, or, with --spill-dir, a folder named after the run.
std::string EgressRun::spill_folder() const {
    if (options_.spill_dir.empty()) return place_.folder() + "/" + run_files::kSpill;
    const std::string name = place_.names().lock();  // "/offramp-RUNID-NONCE.lock"
    return options_.spill_dir + name.substr(0, name.rfind('.')) + ".spill";
}

// A group has a folder of its name in the spill folder.
std::shared_ptr<SpillStore> EgressRun::make_spill(const ConsumerGroup& group) const {
    if (group.policy.when_full != WhenFull::Spill) return nullptr;
    return std::make_shared<SpillStore>(spill_folder() + (group.name.empty() ? "" : "/" + group.name),
                                        [this] { exchange_->wake(); });
}

// A waiting slab that is dropped, by its batches.
void EgressRun::report_dropped(const SlabTicket& ticket, std::span<const std::byte> bytes, const std::string& group) {
    const SlabContents contents = SlabContents::read(bytes, place_.names().nonce, ticket);
    for (const BatchRecord& piece : contents.batches) {
        std::vector<RowInfo> rows;
        for (const SampleView& sample : std::span(contents.samples).subspan(piece.first_sample, piece.rows))
            if (!sample.empty) rows.push_back({.item = sample.item, .key = sample.key});
        items_.on_dropped(piece.batch, rows, group);
    }
}

std::unique_ptr<EgressStream> EgressRun::make_stream(DeviceTimeline& timeline) {
    EgressStream::Options options = options_.stream;
    options.header_fields.run_nonce = place_.names().nonce;
    options.header_fields.epoch = place_.endpoint().epoch;
    options.slab_count = options_.spans.slab_count;
    if (options_.when_full == WhenFull::Drop) options.when_none = SlabExchange::WhenNone::Return;
    if (options_.drops_oldest()) options.when_none = SlabExchange::WhenNone::DropOldest;
    options.on_dropped = [this](std::uint64_t batch, std::span<const RowInfo> rows) {
        items_.on_dropped(batch, rows, "");
    };
    return std::make_unique<EgressStream>(device_, exchange_, options_.layout, timeline, std::move(options),
                                          [this] { listener_.on_stream_failure(); });
}

void EgressRun::open_to_consumers() const {
    if (!has_consumers(options_.slabs)) return;
    failpoint("run.meet");
    place_.open_to_consumers();
    failpoint("run.met");
}

void EgressRun::stop() {
    exchange_->stop();
    stream_->stop();
}

void EgressRun::wait_until_first_usable() {
    if (pool_) pool_->wait_until_first_usable();
}

void EgressRun::wait_until_all_usable() {
    if (pool_) pool_->wait_until_all_usable();
}

std::size_t EgressRun::shm_bytes() const {
    if (groups_.empty()) return 0;
    std::size_t bytes = options_.spans.total_bytes();
    for (const auto& group : groups_) bytes += group->records->memory.bytes();
    return bytes;
}

void EgressRun::remove_spilled() const {
    const bool spills = std::ranges::any_of(groups_, [](const auto& group) { return group->spill != nullptr; });
    if (spills) SpillStore::remove_folder(spill_folder());
}

}  // namespace offramp
