#include "producer/egress/egress_run.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "common/base/clock.hpp"
#include "common/base/error.hpp"
#include "common/base/utf8.hpp"
#include "common/shm/run_objects.hpp"
#include "common/transport/endpoint.hpp"
#include "common/transport/ports.hpp"
#include "common/wire/slab_header.hpp"
#include "producer/broker/broker_thread.hpp"
#include "producer/device/device.hpp"
#include "producer/device/device_timeline.hpp"
#include "producer/device/lending_pool.hpp"
#include "producer/egress/egress_stream.hpp"
#include "producer/egress/run_directory.hpp"
#include "producer/egress/slab_plan.hpp"
#include "producer/ledger/slab_ledger.hpp"
#include "producer/pool/heartbeats_copy.hpp"
#include "producer/pool/run_memory.hpp"
#include "producer/pool/slab_exchange.hpp"
#include "producer/pool/slab_pool.hpp"

namespace offramp {
namespace {

constexpr std::uint32_t kFirstEpoch = 1;
constexpr std::uint32_t kPoolBatchesOnGpu = 8;
constexpr std::uint32_t kPoolBatchesOnCpu = 6;
constexpr std::chrono::milliseconds kLookEvery{5};
constexpr std::uint32_t kMostSlabs = 1U << 16;

// Held by each tensor of a batch until its last copy is done.
struct Held {
    std::vector<std::string> keys;
    std::shared_ptr<const void> owner;
};

void require(bool holds, const std::string& what, const std::string& remedy) {
    if (!holds) throw ConfigError(what, remedy);
}

EgressRunOptions checked(EgressRunOptions options) {
    require(!options.run_dir.empty(), "no run directory was given",
            "Give one that is absent, empty, or an earlier run's: consumers find the run by it");
    require(!options.tensors.empty(), "no tensors were described", "Describe what a batch holds: name, type, shape");
    const std::int64_t rows = options.tensors.front().rows();
    for (const TensorSpec& tensor : options.tensors)
        require(tensor.rows() == rows,
                "tensor " + tensor.describe() + " has other samples than " + options.tensors.front().describe(),
                "Dimension 0 of each tensor counts a batch's samples");
    require(rows >= 1 && rows <= kMaxSamplesPerSlab, "a batch of " + std::to_string(rows) + " samples",
            "Give 1 to " + std::to_string(kMaxSamplesPerSlab));
    require(options.slabs <= kMostSlabs, std::to_string(options.slabs) + " slabs",
            "Give at most " + std::to_string(kMostSlabs));
    require(options.max_consumers >= 1 && options.max_consumers <= 64,
            std::to_string(options.max_consumers) + " consumers at most", "Give 1 to 64");
    require(options.max_key_bytes <= kMaxKeyBytes, "keys of " + std::to_string(options.max_key_bytes) + " bytes",
            "Give at most " + std::to_string(kMaxKeyBytes));
    require(options.name.size() < 64, "a name of " + std::to_string(options.name.size()) + " bytes", "Give at most 63");
    require(options.visibility_timeout > std::chrono::nanoseconds{}, "a visibility timeout of nothing",
            "Give seconds: 30 is the default");
    require(options.max_charges >= 1, "no death may be charged to a slab", "Give at least 1: 3 is the default");
    if (options.run_id.empty()) options.run_id = "egress-" + std::to_string(::getpid());
    RunNames::check_run_id(options.run_id);
    return options;
}

}  // namespace

// In the order in which they need one another; they go backwards.
struct EgressRun::Parts {
    explicit Parts(EgressRunOptions wanted);
    ~Parts();

    void submit(Batch batch);
    bool drain(std::optional<std::chrono::nanoseconds> timeout);
    void check(const Batch& batch) const;
    OutputBatch described(Batch batch);
    void fail(std::exception_ptr error) noexcept;
    void rethrow_failure();
    std::unique_ptr<Delivery> start_broker();
    void forget_endpoint() const;

    const EgressRunOptions options;
    std::mutex failure_mutex;
    std::exception_ptr failure;  // of the pool
    std::atomic<bool> egress_failed{false}, broker_failed{false};
    std::mutex turns;  // submit() and drain()
    RunDirectory directory;
    Endpoint endpoint;
    struct LastSweep {  // behind the lock: whoever leaves a run last removes what bears its name
        const RunNames& names;
        ~LastSweep() { sweep_run(names); }
    } last_sweep{endpoint.names};
    RunLock lock;
    std::unique_ptr<Device> device;
    std::unique_ptr<Stream> clock_stream;  // of the timeline
    DeviceTimeline timeline;
    SlabPlan plan;
    SpanPlan spans;
    RunMemory memory;
    SlabLedger ledger;
    std::shared_ptr<SlabExchange> exchange = SlabExchange::make();
    SlabPool pool;
    HeartbeatsCopy heartbeats;
    PidfdWatch watch;
    SteadyClock clock;
    std::unique_ptr<Delivery> delivery;
    LendingPool<Event> events;
    std::unique_ptr<EgressStream> egress;
    std::uint64_t batches = 0, next_item = 0;
    bool finished = false;  // drain() began
    bool joined = false;
};

EgressRun::Parts::Parts(EgressRunOptions wanted)
    : options(checked(std::move(wanted))),
      directory(options.run_dir, false, RunDirectory::Predecessor::Replaced),
      endpoint{.run_dir = directory.path(),
               .names = {options.run_id, RunNames::random_nonce()},
               .producer_pid = static_cast<std::uint64_t>(::getpid()),
               .epoch = kFirstEpoch},
      lock(RunLock::hold(endpoint.names, true)),
      device(open_device(options.device)),
      clock_stream(device->make_stream("timeline")),
      timeline(*device, *clock_stream),
      plan(SlabPlan::make(options.tensors, {.batch = static_cast<std::uint32_t>(options.tensors.front().rows()),
                                            .samples_per_slab = options.samples_per_slab,
                                            .slabs = options.slabs,
                                            .pool_batches = device->is_gpu() ? kPoolBatchesOnGpu : kPoolBatchesOnCpu,
                                            .max_key_bytes = options.max_key_bytes})),
      spans(SpanPlan::make(plan.slab_count, plan.layout.slab_bytes)),
      memory(endpoint.names, plan.layout, spans, options.max_consumers, kFirstEpoch, false),
      ledger(SlabLedger::format(memory.ledger(), kFirstEpoch)),
      pool(
          endpoint.names, spans,
          [this](std::span<std::byte> span) -> std::shared_ptr<void> {
              device->use_on_this_thread();
              return device->pin(span);
          },
          false,
          SlabPool::Listener{[this] { exchange->wake(); },
                             [this](std::exception_ptr error) { fail(std::move(error)); }}),
      heartbeats(endpoint.names.cells(), options.max_consumers),
      events([this] { return device->make_event(); }) {
    sweep_dead_runs();
    delivery = start_broker();
    egress = std::make_unique<EgressStream>(
        *device, exchange, plan.layout, timeline,
        EgressStream::Options{
            .header_fields = {.run_nonce = endpoint.names.nonce, .epoch = kFirstEpoch, .model = options.name},
            .slab_count = plan.slab_count,
            .batch = static_cast<std::uint32_t>(options.tensors.front().rows()),
            .queue_depth = plan.batches_ahead,
            .max_delay = options.max_delay,
            .when_none = options.drop_when_full ? SlabExchange::WhenNone::Return : SlabExchange::WhenNone::Wait,
            .on_dropped = {}},
        [this] { egress_failed = true; });
    pool.wait_until_first_usable();
    directory.begin();
    endpoint.publish();
}

EgressRun::Parts::~Parts() {
    if (joined) return;
    forget_endpoint();
    egress->stop();
    delivery->abort();
    for (const auto& end :
         {std::function<void()>([this] { egress->finish(); }), std::function<void()>([this] { delivery->join(); })}) {
        try {
            end();
        } catch (...) {
            fail(std::current_exception());  // nobody asks any more
        }
    }
}

std::unique_ptr<Delivery> EgressRun::Parts::start_broker() {
    const auto letters = std::make_shared<DeadLetterWriter>(
        DeadLetterWriter::Settings{.folder = directory.path() + "/quarantine",
                                   .run_id = endpoint.names.run_id,
                                   .run_nonce = endpoint.names.nonce,
                                   .bytes_of =
                                       [this](std::uint32_t slab) {
                                           return DeadLetterWriter::SlabBytes{pool.bytes_of(slab), nullptr};
                                       },
                                   .on_outcome = [this] { exchange->wake(); }});
    const BrokerOptions broker{.run_nonce = endpoint.names.nonce,
                               .allowed_uids = {::geteuid()},
                               .visibility_timeout = options.visibility_timeout,
                               .max_charges = options.max_charges,
                               .dead_letters = letters};
    const Broker::SlabMemory slabs{[this](std::uint32_t slab) { return pool.usable(slab); },
                                   [this](std::uint32_t slab) { return pool.bytes_of(slab); },
                                   [this] { heartbeats.refresh(); }};
    return std::make_unique<BrokerThread>(
        [this, broker, slabs] {
            BrokerThread::Parts parts;
            parts.port = make_zmq_broker_port(endpoint, false);
            parts.broker = std::make_unique<Broker>(ledger, *parts.port, *exchange, watch, clock, heartbeats.records(),
                                                    slabs, broker);
            return parts;
        },
        *exchange,
        [this] {
            broker_failed = true;
            exchange->stop();
        });
}

// The first is the run's. Whoever waits for a slab wakes up, and meets it.
void EgressRun::Parts::fail(std::exception_ptr error) noexcept {
    {
        const std::lock_guard guard(failure_mutex);
        if (!failure) failure = std::move(error);
    }
    exchange->stop();
}

// By whom it concerns: the threads of a part that failed have ended.
void EgressRun::Parts::rethrow_failure() {
    {
        const std::lock_guard guard(failure_mutex);
        if (failure) std::rethrow_exception(failure);
    }
    if (egress_failed) egress->finish();
    if (broker_failed) delivery->join();
}

void EgressRun::Parts::check(const Batch& batch) const {
    require(!finished, "a batch was submitted after drain()", "Open another run for it");
    require(batch.tensors.size() == options.tensors.size(),
            std::to_string(batch.tensors.size()) + " tensors were submitted, the run was opened with " +
                std::to_string(options.tensors.size()),
            "Submit one of each");
    require(std::ranges::find(batch.tensors, nullptr) == batch.tensors.end(), "the address of a tensor is null",
            "Submit where its first sample lies");
    const auto most = static_cast<std::uint32_t>(options.tensors.front().rows());
    require(batch.rows >= 1 && batch.rows <= most, "a batch of " + std::to_string(batch.rows) + " samples",
            "The run was opened for 1 to " + std::to_string(most));
    const auto one_a_row = [&](std::size_t count) { return count == 0 || count == batch.rows; };
    require(one_a_row(batch.keys.size()),
            std::to_string(batch.keys.size()) + " keys for " + std::to_string(batch.rows) + " samples",
            "Give one a sample, or none");
    require(one_a_row(batch.items.size()),
            std::to_string(batch.items.size()) + " items for " + std::to_string(batch.rows) + " samples",
            "Give one a sample, or none");
    for (const std::string& key : batch.keys)
        require(!key.empty() && key.size() <= options.max_key_bytes && is_utf8(key),
                "a key of " + std::to_string(key.size()) + " bytes: '" + printable(key.substr(0, 64)) + "'",
                "Keys are UTF-8 of 1 to " + std::to_string(options.max_key_bytes) + " bytes (max_key_bytes)");
    require(
        batch.items.empty() || (batch.items.front() >= next_item &&
                                std::ranges::adjacent_find(batch.items, std::greater_equal<>()) == batch.items.end()),
        "the items' numbers do not rise",
        "Number each item once, in the order in which they are submitted; the next is " + std::to_string(next_item) +
            " or more");
}

OutputBatch EgressRun::Parts::described(Batch batch) {
    void* const stream = batch.stream;
    const auto held = std::make_shared<Held>(Held{std::move(batch.keys), std::move(batch.owner)});
    OutputBatch output{.number = batches, .rows = std::vector<RowInfo>(batch.rows)};
    for (std::uint32_t row = 0; row < batch.rows; ++row) {
        output.rows[row].item = batch.items.empty() ? next_item + row : batch.items[row];
        if (!held->keys.empty()) output.rows[row].key = held->keys[row];
    }
    for (std::size_t i = 0; i < options.tensors.size(); ++i)
        output.tensors.push_back({.spec = options.tensors[i], .data = batch.tensors[i], .owner = held});
    output.computed = events.take();
    // On the CPU the tensors are there when they are submitted.
    device->borrow_stream(device->is_gpu() ? stream : nullptr)->record(*output.computed);
    return output;
}

void EgressRun::Parts::submit(Batch batch) {
    const std::lock_guard turn(turns);
    rethrow_failure();
    check(batch);
    OutputBatch output = described(std::move(batch));
    const std::uint64_t through = output.rows.back().item + 1;
    if (!egress->submit(std::move(output))) {
        rethrow_failure();
        throw Error(ExitCode::Interrupted, "the run was stopped: it takes no more batches");
    }
    ++batches;
    next_item = through;
}

bool EgressRun::Parts::drain(std::optional<std::chrono::nanoseconds> timeout) {
    const std::lock_guard turn(turns);
    const TimePoint began = clock.now();
    rethrow_failure();
    if (joined) return true;
    finished = true;
    egress->close();
    while (!delivery->report().ended) {
        rethrow_failure();
        if (timeout && clock.now() - began >= *timeout) return false;
        std::this_thread::sleep_for(kLookEvery);
    }
    joined = true;
    egress->finish();
    delivery->join();
    forget_endpoint();
    return true;
}

// Consumers find no run here any more, although this process lives on.
void EgressRun::Parts::forget_endpoint() const { ::unlink(endpoint.file().c_str()); }

EgressRun::EgressRun(EgressRunOptions options) : parts_(std::make_unique<Parts>(std::move(options))) {}

EgressRun::~EgressRun() = default;

void EgressRun::submit(Batch batch) { parts_->submit(std::move(batch)); }

bool EgressRun::drain(std::optional<std::chrono::nanoseconds> timeout) { return parts_->drain(timeout); }

EgressRunFigures EgressRun::figures() const {
    const OutputFigures output = parts_->egress->figures();
    const BrokerReport broker = parts_->delivery->report();
    return {.batches_submitted = output.batches_submitted,
            .samples_submitted = output.samples_submitted,
            .samples_published = broker.published.samples,
            .samples_completed = broker.completed.samples,
            .samples_dropped = output.samples_dropped,
            .samples_set_aside = broker.quarantined.samples,
            .bytes_copied = output.bytes_copied,
            .copy_seconds = output.copy_seconds,
            .slab_wait_seconds = parts_->exchange->wait_seconds(),
            .consumers = static_cast<std::uint32_t>(
                std::ranges::count_if(broker.consumers, [](const ConsumerReport& one) { return one.end.empty(); }))};
}

std::string EgressRun::dead_letter_folder() const { return parts_->directory.path() + "/quarantine"; }

}  // namespace offramp
