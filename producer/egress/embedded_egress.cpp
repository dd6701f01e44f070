#include "producer/egress/embedded_egress.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <ctime>
#include <exception>
#include <functional>
#include <limits>
#include <mutex>
#include <utility>

#include "common/base/clock.hpp"
#include "common/base/error.hpp"
#include "common/base/utf8.hpp"
#include "common/json/json_text.hpp"
#include "common/shm/run_objects.hpp"
#include "common/tracing/live_trace.hpp"
#include "common/wire/slab_header.hpp"
#include "producer/device/device.hpp"
#include "producer/device/device_timeline.hpp"
#include "producer/device/lending_pool.hpp"
#include "producer/egress/egress_run.hpp"
#include "producer/egress/run_directory_lock.hpp"
#include "producer/egress/run_lifecycle.hpp"
#include "producer/egress/run_status.hpp"

namespace offramp {
namespace {

// Differs for each run, because earlier results that are renamed aside carry the id of the run that did it. Containers
// repeat process ids.
std::string next_run_id() {
    static std::atomic<unsigned> runs{0};
    return "egress-" + std::to_string(::getpid()) + "-" + std::to_string(std::time(nullptr)) + "-" +
           std::to_string(++runs);
}

constexpr std::uint32_t kMostSlabs = 1U << 16;
constexpr std::size_t kMostSampleBytes = std::size_t{1} << 44;  // far above any memory, far below an overflow of a sum

// Held by each tensor of a batch until its last copy is done.
struct Held {
    std::vector<std::string> keys;
    std::vector<std::string> metadata;
    std::shared_ptr<const void> owner;
};

[[noreturn]] void refuse(const std::string& what, const std::string& remedy) { throw ConfigError(what, remedy); }

void require(bool holds, const std::string& what, const std::string& remedy) {
    if (!holds) refuse(what, remedy);
}

EmbeddedEgressOptions checked(EmbeddedEgressOptions options) {
    require(!options.run_dir.empty(), "no run directory was given",
            "Give one that is absent, empty, or an earlier run's: consumers find the run by it");
    require(!options.tensors.empty(), "no tensors were described", "Describe what a batch holds: name, type, shape");
    const std::int64_t rows = options.tensors.front().rows();
    for (const TensorSpec& tensor : options.tensors)
        require(
            tensor.rows() == rows,
            "tensor " + tensor.describe() + " has another number of samples than " + options.tensors.front().describe(),
            "Dimension 0 of each tensor counts a batch's samples");
    require(rows >= 1 && rows <= kMaxSamplesPerSlab, "a batch of " + std::to_string(rows) + " samples",
            "Give 1 to " + std::to_string(kMaxSamplesPerSlab));
    require(options.plan.slabs <= kMostSlabs, std::to_string(options.plan.slabs) + " slabs",
            "Give at most " + std::to_string(kMostSlabs));
    require(options.run.max_consumers >= 1 && options.run.max_consumers <= kConsumerTableSize,
            std::to_string(options.run.max_consumers) + " consumers at most",
            "Give 1 to " + std::to_string(kConsumerTableSize));
    require(options.plan.max_key_bytes <= kMaxKeyBytes,
            "keys of " + std::to_string(options.plan.max_key_bytes) + " bytes",
            "Give at most " + std::to_string(kMaxKeyBytes));
    require(options.plan.metadata_bytes <= kMaxMetadataBytes,
            "metadata of " + std::to_string(options.plan.metadata_bytes) + " bytes per sample",
            "Give at most " + std::to_string(kMaxMetadataBytes));
    require(options.name.size() < 64, "a name of " + std::to_string(options.name.size()) + " bytes", "Give at most 63");
    const BrokerOptions usual;
    require(options.run.broker.visibility_timeout > std::chrono::nanoseconds{},
            "the visibility timeout is not above 0 s",
            "Give seconds: " + std::to_string(duration_cast<std::chrono::seconds>(usual.visibility_timeout).count()) +
                " is the default");
    require(options.run.broker.max_failures >= 1, "max_failures is 0",
            "Give at least 1: " + std::to_string(usual.max_failures) + " is the default");
    options.plan.batch = options.run.stream.batch = static_cast<std::uint32_t>(rows);
    if (options.run_id.empty()) options.run_id = next_run_id();
    RunNames::check_run_id(options.run_id);
    return options;
}

}  // namespace

// In order of dependency; destroyed in reverse.
struct EmbeddedEgress::Parts final : private StoppableRun, RunListener, ItemListener {
    explicit Parts(EmbeddedEgressOptions wanted);
    ~Parts() override;

    std::optional<std::uint64_t> submit(Batch batch);
    bool drain(std::optional<std::chrono::nanoseconds> timeout);
    void check(const Batch& batch) const;
    void check_metadata(const Batch& batch) const;
    std::vector<DeviceTensor> checked_tensors(const Batch& batch) const;
    DeviceTensor checked_samples(const Batch& batch, std::size_t tensor) const;
    void require_room(const std::vector<DeviceTensor>& tensors, const Batch& batch) const;
    void require_slabs(const std::vector<DeviceTensor>& tensors, std::uint32_t rows) const;
    OutputBatch described(Batch batch, std::vector<DeviceTensor> tensors);
    void attempt(const std::function<void()>& step);
    void require_no_failure();
    void end();
    void end_input() override { run->stream().close(); }
    void stop_outputs() override { run->stop(); }
    void dismiss_consumers() override { run->broker().abort(); }
    EgressRunOptions run_options() const;
    void on_completed(const PublishedSlab& slab) override;
    void on_dead_letter(const PublishedSlab& slab) override;
    void on_dropped(std::uint64_t batch, std::span<const RowInfo> rows, const std::string& group) override;
    void on_pool_failure(std::exception_ptr error) override;
    void on_broker_failure() override { life.stop(StopMode::Abandon, "the broker failed"); }
    void on_stream_failure() override { life.stop(StopMode::Halt, "the egress failed"); }
    void on_delivery_end() override { life.note_delivery_end(); }
    EgressStats stats() const;

    const std::uint64_t began_ns = now_ns();
    const EmbeddedEgressOptions options;
    RunLifecycle life{*this};
    std::mutex turns;  // serializes submit() and drain()
    RunDirectoryLock place;
    const std::unique_ptr<Device> device;
    const std::unique_ptr<Stream> clock_stream;  // for the timeline
    DeviceTimeline timeline;
    const SlabPlan plan;
    LendingPool<Event> events;
    std::optional<EgressRun> run;
    std::unique_ptr<LiveTrace> trace;  // used by its thread until that has ended
    std::unique_ptr<RunStatus> status;
    std::uint64_t batches = 0, next_item = 0;
};

EmbeddedEgress::Parts::Parts(EmbeddedEgressOptions wanted)
    : options(checked(std::move(wanted))),
      place({.run_dir = options.run_dir, .run_id = options.run_id}),
      device(open_device(options.device)),
      clock_stream(device->make_stream("timeline")),
      timeline(*device, *clock_stream),
      plan(SlabPlan::make(options.tensors, options.plan, device->is_gpu())),
      events([this] { return device->make_event(); }) {
    sweep_dead_runs();
    run.emplace(place, *device, timeline, run_options(), *this, *this);
    run->wait_until_first_usable();
    place.remove_old_reports();
    trace = std::make_unique<LiveTrace>(place.folder(), "producer", "main", [this] {
        device->use_on_this_thread();
        timeline.align();
    });
    const DeviceInfo info = device->info();
    status = std::make_unique<RunStatus>(
        RunStatus::Facts{.run_dir = place.folder(),
                         .run_id = options.run_id,
                         .name = options.name,
                         .nonce = place.names().nonce,
                         .epoch = place.endpoint().epoch,
                         .device = info.word(),
                         .device_uuid = info.uuid,
                         .began_ns = began_ns,
                         .shm_bytes = run->shm_bytes()},
        [this] { return stats(); }, [this] { trace->look(kSteadyClock.now()); });
    try {
        run->open_to_consumers();
    } catch (...) {
        life.note(std::current_exception());
        status->end(life.word(), life.failure());
        throw;
    }
    life.begin();
}

EgressRunOptions EmbeddedEgress::Parts::run_options() const {
    EgressRunOptions chosen = options.run;
    chosen.layout = plan.layout;
    chosen.spans = SpanPlan::make(plan.slab_count, plan.layout.slab_bytes);
    chosen.pinning = {.wanted = true, .proved = false};
    chosen.stream.queue_depth = kMostBatchesAhead;  // EgressStream bounds their bytes
    chosen.stream.header_fields.model = options.name;
    chosen.broker.allowed_uids = {::geteuid()};
    return chosen;
}

void EmbeddedEgress::Parts::on_completed(const PublishedSlab& slab) {
    if (options.on_completed) options.on_completed(slab.items);
}

void EmbeddedEgress::Parts::on_dead_letter(const PublishedSlab& slab) {
    if (options.on_failed_items) options.on_failed_items(slab.items);
}

void EmbeddedEgress::Parts::on_dropped(std::uint64_t, std::span<const RowInfo> rows, const std::string&) {
    if (!options.on_failed_items) return;
    std::vector<ItemRange> items;
    for (const RowInfo& row : rows) append_item(items, row.item);
    options.on_failed_items(items);
}

void EmbeddedEgress::Parts::on_pool_failure(std::exception_ptr error) {
    life.note(std::move(error));
    life.stop(StopMode::Halt, "the pool failed");
}

// A drained run has ended already.
EmbeddedEgress::Parts::~Parts() {
    if (life.state() == RunState::Ended) return;
    place.close_to_consumers();
    life.stop(StopMode::Abandon, "it was not drained");
    end();
}

// The step's error becomes the run's, if it is the first.
void EmbeddedEgress::Parts::attempt(const std::function<void()>& step) {
    try {
        step();
    } catch (...) {
        life.note(std::current_exception());
    }
}

// A failed part's threads end soon: joining them yields their error. Only the broker abandons a run that its program
// still uses.
void EmbeddedEgress::Parts::require_no_failure() {
    if (!life.error() && life.is_stopped(StopMode::Abandon)) attempt([this] { run->broker().join(); });
    if (!life.error() && life.is_stopped(StopMode::Halt)) attempt([this] { run->stream().finish(); });
    if (life.error()) std::rethrow_exception(life.error());
}

// For a run that is drained or abandoned: its threads end by themselves.
void EmbeddedEgress::Parts::end() {
    attempt([this] { run->stream().finish(); });
    attempt([this] { run->broker().join(); });
    life.end();
    status->end(life.word(), life.failure());
    trace->end();
}

// Called for each batch: it builds texts only when something is wrong.
void EmbeddedEgress::Parts::check(const Batch& batch) const {
    if (life.stopped() == StopMode::Drain) refuse("a batch was submitted after drain()", "Open another run for it");
    if (batch.tensors.size() != options.tensors.size())
        refuse(std::to_string(batch.tensors.size()) + " tensors were submitted, the run was opened with " +
                   std::to_string(options.tensors.size()),
               "Submit one of each");
    if (batch.rows < 1 || batch.rows > kMaxSamplesPerSlab)
        refuse("a batch of " + std::to_string(batch.rows) + " samples",
               "Submit 1 to " + std::to_string(kMaxSamplesPerSlab) + " at a time");
    const auto one_a_row = [&](std::size_t count) { return count == 0 || count == batch.rows; };
    if (!one_a_row(batch.keys.size()))
        refuse(std::to_string(batch.keys.size()) + " keys for " + std::to_string(batch.rows) + " samples",
               "Give one for each sample, or none");
    if (!one_a_row(batch.metadata.size()))
        refuse("metadata of " + std::to_string(batch.metadata.size()) + " samples for " + std::to_string(batch.rows),
               "Give one for each sample, or none");
    if (!one_a_row(batch.items.size()))
        refuse(std::to_string(batch.items.size()) + " items for " + std::to_string(batch.rows) + " samples",
               "Give one for each sample, or none");
    for (const std::string& key : batch.keys)
        if (key.empty() || key.size() > options.plan.max_key_bytes || !is_utf8(key))
            refuse("a key of " + std::to_string(key.size()) + " bytes: '" + printable(key.substr(0, 64)) + "'",
                   "Keys are UTF-8 of 1 to " + std::to_string(options.plan.max_key_bytes) + " bytes (max_key_bytes)");
    check_metadata(batch);
    if (!batch.items.empty() && (batch.items.front() < next_item ||
                                 std::ranges::adjacent_find(batch.items, std::greater_equal<>()) != batch.items.end()))
        refuse("item numbers do not increase", "Number items once, in the order of submission; the next number is " +
                                                   std::to_string(next_item) + " or more");
    // kMostItems itself is the end of the last range.
    constexpr std::uint64_t kMostItems = std::numeric_limits<std::uint64_t>::max();
    if (batch.items.empty() ? batch.rows > kMostItems - next_item : batch.items.back() == kMostItems)
        refuse("an item has the number " + std::to_string(kMostItems), "Use item numbers below that");
}

void EmbeddedEgress::Parts::check_metadata(const Batch& batch) const {
    for (std::size_t row = 0; row < batch.metadata.size(); ++row) {
        const std::string& text = batch.metadata[row];
        if (text.empty()) continue;
        const std::string which = "the metadata of sample " + std::to_string(row);
        if (text.size() > options.plan.metadata_bytes)
            refuse(which + " has " + std::to_string(text.size()) + " bytes as JSON, and the run was opened for " +
                       std::to_string(options.plan.metadata_bytes),
                   text.size() > kMaxMetadataBytes
                       ? "Give at most " + std::to_string(kMaxMetadataBytes) + "; submit larger data as a tensor"
                       : "Open it with metadata_bytes for the largest, at least " + std::to_string(text.size()));
        if (!parse_json_or_discard(text).is_object())
            refuse(which + " is not a JSON object: '" + printable(text.substr(0, 64)) + "'",
                   "Give one in UTF-8, such as {\"path\": \"a.png\"}");
    }
}

std::vector<DeviceTensor> EmbeddedEgress::Parts::checked_tensors(const Batch& batch) const {
    std::vector<DeviceTensor> tensors;
    tensors.reserve(options.tensors.size());
    for (std::size_t i = 0; i < options.tensors.size(); ++i) {
        const TensorSpec& spec = options.tensors[i];
        if (spec.varies()) {
            tensors.push_back(checked_samples(batch, i));
            continue;
        }
        if ((!batch.extents.empty() && batch.extents[i] != nullptr) ||
            (!batch.addresses.empty() && batch.addresses[i] != nullptr))
            refuse(
                "tensor '" + spec.name + "' has extents or addresses, and the run was opened for samples of one shape",
                "Submit the address of its first sample, or open the run with OFFRAMP_VARIABLE");
        if (batch.tensors[i] == nullptr)
            refuse("the address of tensor '" + spec.name + "' is null", "Submit the address of its first sample");
        tensors.push_back({.spec = spec, .data = batch.tensors[i]});
    }
    if (plan.layout.varies()) require_room(tensors, batch);
    return tensors;
}

DeviceTensor EmbeddedEgress::Parts::checked_samples(const Batch& batch, std::size_t tensor) const {
    const TensorSpec& spec = options.tensors[tensor];
    const std::size_t varying = spec.varying_dims();
    const std::int64_t* const extents = batch.extents.empty() ? nullptr : batch.extents[tensor];
    const void* const* const addresses = batch.addresses.empty() ? nullptr : batch.addresses[tensor];
    if (extents == nullptr)
        refuse("tensor '" + spec.name + "' has no extents, and its samples differ in shape",
               "Submit each sample's extents");
    DeviceTensor given{.spec = spec, .data = addresses == nullptr ? batch.tensors[tensor] : nullptr};
    given.samples.reserve(batch.rows);
    given.extents.assign(extents, extents + batch.rows * varying);
    const auto* next = static_cast<const std::byte*>(batch.tensors[tensor]);
    for (std::uint32_t row = 0; row < batch.rows; ++row) {
        const auto own = std::span(given.extents).subspan(row * varying, varying);
        for (const std::int64_t extent : own)
            if (extent < 0)
                refuse("sample " + std::to_string(row) + " of tensor '" + spec.name + "' has the extent " +
                           std::to_string(extent),
                       "Give 0 or more");
        const auto bytes = spec.sample_bytes(own, kMostSampleBytes);
        if (!bytes)
            refuse("sample " + std::to_string(row) + " of tensor " + spec.describe() + " has the extent " +
                       std::to_string(std::ranges::max(own)) + " and is too large",
                   "Give at most " + std::to_string(kMostSampleBytes) + " bytes");
        const auto* const data = addresses == nullptr ? next : static_cast<const std::byte*>(addresses[row]);
        if (data == nullptr && *bytes > 0)
            refuse("the address of sample " + std::to_string(row) + " of tensor '" + spec.name + "' is null",
                   "Submit its address, or extents with a 0");
        given.samples.push_back({.data = data, .bytes = *bytes});
        if (addresses == nullptr && next != nullptr) next += *bytes;
    }
    return given;
}

// Each sample fits into a slab.
void EmbeddedEgress::Parts::require_room(const std::vector<DeviceTensor>& tensors, const Batch& batch) const {
    for (std::uint32_t row = 0; row < batch.rows; ++row) {
        const std::size_t bytes = varying_bytes(tensors, row);
        if (bytes <= plan.layout.varying_bytes) continue;
        const std::string key = batch.keys.empty() ? "" : " ('" + printable(batch.keys[row]) + "')";
        refuse("sample " + std::to_string(row) + key + " has " + std::to_string(bytes) +
                   " bytes, and a slab has room for " + std::to_string(plan.layout.varying_bytes),
               "Open the run with slab_bytes for the largest sample, at least " + std::to_string(bytes));
    }
}

// If a batch had more parts than the pool has slabs, a run that drops would lose a part whatever its consumers do.
void EmbeddedEgress::Parts::require_slabs(const std::vector<DeviceTensor>& tensors, std::uint32_t rows) const {
    std::uint32_t parts = 0;
    for (std::uint32_t first = 0; first < rows; ++parts)
        first += rows_of_a_slab(tensors, first, rows - first, plan.layout);
    if (parts > plan.slab_count)
        refuse("a batch of " + std::to_string(rows) + " samples fills " + std::to_string(parts) +
                   " slabs, and the run has " + std::to_string(plan.slab_count) +
                   " and drops samples when no slab is free",
               "Submit smaller batches, open the run with more or larger slabs (slabs, samples_per_slab, slab_bytes), "
               "or let submit() wait for free slabs");
}

OutputBatch EmbeddedEgress::Parts::described(Batch batch, std::vector<DeviceTensor> tensors) {
    void* const on_stream = batch.stream;
    const auto held =
        std::make_shared<Held>(Held{std::move(batch.keys), std::move(batch.metadata), std::move(batch.owner)});
    OutputBatch output{.number = batches, .rows = std::vector<RowInfo>(batch.rows)};
    for (std::uint32_t row = 0; row < batch.rows; ++row) {
        output.rows[row].item = batch.items.empty() ? next_item + row : batch.items[row];
        if (!held->keys.empty()) output.rows[row].key = held->keys[row];
        if (!held->metadata.empty()) output.rows[row].metadata = held->metadata[row];
    }
    output.tensors = std::move(tensors);
    for (DeviceTensor& tensor : output.tensors) tensor.owner = held;
    output.computed = events.take();
    // On the CPU, submitted tensors are complete.
    device->borrow_stream(device->is_gpu() ? on_stream : nullptr)->record(*output.computed);
    return output;
}

std::optional<std::uint64_t> EmbeddedEgress::Parts::submit(Batch batch) {
    const std::lock_guard turn(turns);
    require_no_failure();
    check(batch);
    std::vector<DeviceTensor> tensors = checked_tensors(batch);
    if (options.run.may_drop()) require_slabs(tensors, batch.rows);
    if (batch.timeout && !run->stream().wait_for_room(kSteadyClock.now() + *batch.timeout)) return std::nullopt;
    OutputBatch output = described(std::move(batch), std::move(tensors));
    const std::uint64_t through = output.rows.back().item + 1;
    if (!run->stream().submit(std::move(output))) {
        require_no_failure();
        throw Error(ErrorKind::Interrupted, "the run was stopped: it takes no more batches");
    }
    next_item = through;
    return batches++;
}

bool EmbeddedEgress::Parts::drain(std::optional<std::chrono::nanoseconds> timeout) {
    const std::lock_guard turn(turns);
    const auto until = timeout ? std::optional(kSteadyClock.now() + *timeout) : std::nullopt;
    require_no_failure();
    if (life.state() == RunState::Ended) return true;
    life.stop(StopMode::Drain, "drain() was called");
    status->change(life.word(), life.failure());
    const bool delivered = life.wait_for_delivery(until);
    require_no_failure();
    if (!delivered) return false;
    place.close_to_consumers();
    end();
    require_no_failure();
    return true;
}

EgressStats EmbeddedEgress::Parts::stats() const {
    return {.at_ns = now_ns(),
            .output = run->stream().stats(),
            .slab_wait_seconds = run->slab_wait_seconds(),
            .broker = run->broker().report()};
}

EmbeddedEgress::EmbeddedEgress(EmbeddedEgressOptions options) : parts_(std::make_unique<Parts>(std::move(options))) {}

EmbeddedEgress::~EmbeddedEgress() = default;

std::optional<std::uint64_t> EmbeddedEgress::submit(Batch batch) { return parts_->submit(std::move(batch)); }

bool EmbeddedEgress::drain(std::optional<std::chrono::nanoseconds> timeout) { return parts_->drain(timeout); }

EgressStats EmbeddedEgress::stats() const { return parts_->stats(); }

}  // namespace offramp
