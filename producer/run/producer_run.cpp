#include "producer/run/producer_run.hpp"

#include <pwd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "common/base/clock.hpp"
#include "common/base/log.hpp"
#include "common/base/trace_recording.hpp"
#include "common/shm/shared_region.hpp"
#include "producer/cuda/gpu_search.hpp"
#include "producer/models/copy_model.hpp"
#include "producer/models/model_library.hpp"
#include "producer/pipeline/input_upload.hpp"
#include "producer/pipeline/limits.hpp"
#include "producer/rungs/make_egress.hpp"

namespace offramp {
namespace {

constexpr std::uint32_t kConsumerCapacity = 64;
constexpr std::uint64_t kLimitWarmup = 5;
constexpr std::uint32_t kPoolBatchesOnGpu = 8;
constexpr std::uint32_t kPoolBatchesOnCpu = 6;

Endpoint endpoint_of(const RunConfig& config, const std::string& run_dir) {
    RunNames names{config.run_id, RunNames::random_nonce()};
    RunNames::check_run_id(names.run_id);
    return {.run_dir = run_dir, .names = names, .producer_pid = static_cast<std::uint64_t>(::getpid()), .epoch = 1};
}

std::vector<uid_t> allowed_uids(const RunConfig& config) {
    std::vector<uid_t> uids{::geteuid()};
    if (!config.consumer_user.empty()) {
        const passwd* entry = ::getpwnam(config.consumer_user.c_str());
        if (entry == nullptr)
            throw ConfigError("--consumer-user '" + config.consumer_user + "' is no user of this machine",
                              "Give a name that getent passwd lists");
        uids.push_back(entry->pw_uid);
    }
    return uids;
}

double cpu_seconds() {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    const auto seconds = [](const timeval& time) {
        return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
    };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

const SourceEntry& find_source(const std::string& name) {
    std::string known;
    for (const SourceEntry& entry : SourceEntry::all()) {
        if (entry.name == name) return entry;
        known += (known.empty() ? "" : ", ") + std::string(entry.name);
    }
    throw ConfigError("--source '" + name + "' is unknown", "Known: " + known);
}

}  // namespace

ProducerRun::ProducerRun(RunConfig config, const EndSignals& signals, std::uint64_t began_ns)
    : config_(std::move(config)),
      rung_(Rung::named(config_.rung)),
      began_ns_(began_ns),
      exchange_(SlabExchange::make()),
      end_watch_(signals, config_.lifeline_fd,
                 {.drain = [this](const char* why) { drain(why); },
                  .abandon = [this](const char* why) { abandon(why); },
                  .beat = [this] { beat(); },
                  .beat_interval = std::chrono::milliseconds(static_cast<std::int64_t>(config_.status_seconds * 1e3))}),
      directory_(config_.run_dir, !config_.consumer_user.empty()),
      endpoint_(endpoint_of(config_, directory_.path())),
      run_lock_(RunLock::hold(endpoint_.names, true, !config_.consumer_user.empty())),
      device_(open_device(config_.device)) {
    device_->use_on_this_thread();
    const DeviceInfo device = device_->info();
    if (device_->is_gpu())
        spdlog::info("device: {}", device.name);
    else
        spdlog::warn("no GPU is used, model and copies run on the CPU ({}){}", device.name,
                     config_.device == "cpu" ? "" : ": " + find_gpus().obstacle);
    compute_ = device_->make_stream("compute");
    timeline_ = std::make_unique<DeviceTimeline>(*device_, *compute_);
    open_model();
    check_not_stopped();
    open_source();
    open_manifest();
    lay_out_slabs();
    start_delivery();
    check_not_stopped();
    start_pipeline();
    check_not_stopped();
    report_ = std::make_unique<RunReport>(
        directory_.path(), RunFacts{.config = config_,
                                    .device = device,
                                    .model = model_->description(),
                                    .source = source_->description(),
                                    .random_weights = model_->random_weights(),
                                    .items = source_->items(),
                                    .done_before = done_before(),
                                    .slab_payload_bytes = plan_.layout.payload_bytes,
                                    .samples_per_slab = static_cast<std::uint64_t>(plan_.layout.rows),
                                    .batches_per_slab = plan_.layout.batches,
                                    .slabs = plan_.spans.slab_count,
                                    .began_ns = began_ns_});
}

// Backwards through the parts: nothing may be copied into a slab, or read the broker's memory, when its owner goes.
ProducerRun::~ProducerRun() {
    retire_parts();
    if (input_) input_->stop();
    egress_.reset();
    inference_.reset();
    delivery_.reset();
    pool_.reset();
}

void ProducerRun::open_model() {
    ModelOptions options{.name = config_.model,
                         .weights = config_.weights,
                         .seed = config_.seed,
                         .batch = config_.batch,
                         .image_size = config_.image_size,
                         .precision = config_.precision,
                         .memory_format = config_.memory_format,
                         .leave_out_enlargement = OutputTransformer::wants_small_outputs(config_.transform),
                         .deterministic = config_.deterministic,
                         .cuda_graphs = config_.cuda_graphs != "off",
                         .device_index = device_->is_gpu() ? device_->info().index : -1,
                         .stream = compute_->native(),
                         .copy_bytes = config_.copy_bytes,
                         .copy_outputs = config_.copy_outputs};
    const std::string built_in[] = {"copy"};
    model_ = config_.model == "copy" ? make_copy_model(options, *device_)
                                     : ModelLibrary::open().make(options, built_in);
    transformer_ = std::make_unique<OutputTransformer>(*device_, model_->outputs(), model_->expansion(),
                                                       TransformSettings{.transform = config_.transform,
                                                                         .output_dtype = config_.output_dtype,
                                                                         .confidence = config_.confidence});
    spdlog::info("model: {}", model_->description());
    if (model_->random_weights())
        spdlog::warn("the weights are random: outputs mean nothing. Give --weights FILE.safetensors for real ones");
}

void ProducerRun::open_source() {
    const ModelInput input = model_->input();
    source_ = find_source(config_.source)
                  .make({.config = &config_, .model_input = input.tensor, .model_takes_images = input.kind == InputKind::Image});
    spdlog::info("source: {}", source_->description());
}

// Of a run whose outputs go nowhere there is nothing to continue.
void ProducerRun::open_manifest() {
    if (config_.resume && config_.output.empty())
        throw ConfigError("--resume needs --output", "Give the output folder of the run that is to be continued");
    if (config_.output.empty() || rung_.processing == Rung::Processing::None) return;
    manifest_ = std::make_unique<RunManifest>(config_, *source_,
                                              config_.resume ? RunManifest::Former::Continue : RunManifest::Former::StartOver,
                                              [this](std::exception_ptr error) { fail(error); });
}

std::function<void(const PublishedSlab&)> ProducerRun::completion_noter() {
    if (!manifest_) return {};
    return [this](const PublishedSlab& slab) { manifest_->completed(slab); };
}

void ProducerRun::lay_out_slabs() {
    plan_ = EgressPlan::make(config_, rung_, transformer_->outputs(), source_->max_key_bytes(),
                             device_->is_gpu() ? kPoolBatchesOnGpu : kPoolBatchesOnCpu);
    spdlog::info("slabs: {} of {:.1f} MiB, {} samples each, in {} spans", plan_.spans.slab_count,
                 static_cast<double>(plan_.layout.slab_bytes) / (1 << 20), plan_.layout.rows, plan_.spans.span_count);
    if (rung_.name != "streams") spdlog::warn("rung '{}': this run shows what it costs; streams is the default", rung_.name);
    if (rung_.has_consumers()) {
        memory_ = std::make_unique<RunMemory>(endpoint_.names, plan_.layout, plan_.spans, kConsumerCapacity, endpoint_.epoch,
                                              !config_.consumer_user.empty());
        ledger_ = std::make_unique<SlabLedger>(SlabLedger::format(memory_->ledger(), endpoint_.epoch));
    }
    if (rung_.has_pool()) make_pool();
}

void ProducerRun::make_pool() {
    pool_ = std::make_unique<SlabPool>(
        endpoint_.names, plan_.spans, [this](std::span<std::byte> span) { return pin_span(span); },
        !config_.consumer_user.empty(),
        SlabPool::News{[this] { exchange_->wake(); }, [this](std::exception_ptr error) { fail(error); }});
}

std::shared_ptr<void> ProducerRun::pin_span(std::span<std::byte> span) {
    device_->use_on_this_thread();
    std::shared_ptr<void> registration;
    if (rung_.memory == Rung::Memory::PageLockedPool && !config_.allow_unpinned) registration = device_->pin(span);
    const std::lock_guard lock(mutex_);
    if (!pinning_proved_) prove_pinning(span);
    return registration;
}

// CUDA's own word on the first span, and a timed copy: memory that only seems page-locked costs three quarters of the bandwidth.
void ProducerRun::prove_pinning(std::span<std::byte> span) {
    pinning_ = device_->prove_pinned(span.first(std::min<std::size_t>(span.size(), std::size_t{256} << 20)));
    const bool wanted = rung_.memory == Rung::Memory::PageLockedPool && !config_.allow_unpinned;
    if (device_->is_gpu() && !pinning_.registered && wanted)
        throw Error(ExitCode::DeviceUnsupported, "the slabs could not be page-locked: CUDA does not know them as host memory",
                    "Run offramp doctor; or accept slow copies with --allow-unpinned");
    spdlog::info("slabs are {}: {:.1f} GB/s into them", pinning_.registered ? "page-locked" : "ordinary memory",
                 pinning_.gigabytes_per_second);
    pinning_proved_ = true;
}

// Before the parts are there, a stop has nothing to drain.
void ProducerRun::check_not_stopped() const {
    const std::lock_guard lock(mutex_);
    if (first_error_) std::rethrow_exception(first_error_);
    if (draining_) throw Error(ExitCode::Interrupted, "stopped while starting: nothing was read yet");
}

void ProducerRun::start_delivery() {
    if (rung_.has_consumers()) {
        delivery_ = start_broker();
        endpoint_.publish();
    } else {
        auto local = std::make_unique<LocalDelivery>(config_.warmup_batches, completion_noter());
        local_ = local.get();
        delivery_ = std::move(local);
    }
}

std::unique_ptr<Delivery> ProducerRun::start_broker() {
    const BrokerOptions options{
        .run_nonce = endpoint_.names.nonce,
        .allowed_uids = allowed_uids(config_),
        .lease = std::chrono::nanoseconds(static_cast<std::int64_t>(config_.lease_seconds * 1e9)),
        .max_charges = config_.max_charges,
        .warmup_batches = config_.warmup_batches,
        .on_completed = completion_noter(),
        .kill_overdue = config_.kill_overdue,
        .quarantine = make_quarantine()};
    cells_ = std::make_unique<CellsCopy>(endpoint_.names.cells(), kConsumerCapacity);
    // Without a pool, each slab's memory is made when it is filled.
    const Broker::SlabMemory memory{
        [this](std::uint32_t slab) { return !pool_ || pool_->usable(slab); },
        [this](std::uint32_t slab) { return pool_ ? pool_->bytes_of(slab) : std::span<std::byte>{}; },
        [this] { cells_->look_again(); }};
    return std::make_unique<BrokerThread>(
        [this, options, memory] {
            BrokerThread::Parts parts;
            parts.port = make_zmq_broker_port(endpoint_, !config_.consumer_user.empty());
            parts.broker = std::make_unique<Broker>(*ledger_, *parts.port, *exchange_, watch_, clock_, cells_->cells(), memory,
                                                    options);
            return parts;
        },
        *exchange_, [this] { abandon("the broker failed"); });
}

// What is given up is kept in the run's directory, where the launch script finds it.
std::shared_ptr<QuarantineWriter> ProducerRun::make_quarantine() {
    const auto bytes_of = [this](std::uint32_t slab) -> QuarantineWriter::SlabBytes {
        if (pool_) return {pool_->bytes_of(slab), nullptr};
        // A segment of its own for each slab: whoever filled it goes on to others, the segment stays until the slab is filled again.
        auto segment = std::make_shared<SharedRegionView>(SharedRegionView::attach(
            endpoint_.names.span(slab), SharedRegionView::Access::ReadOnly, plan_.layout.slab_bytes));
        const auto bytes = segment->bytes();
        return {bytes, std::move(segment)};
    };
    return std::make_shared<QuarantineWriter>(QuarantineWriter::Settings{.folder = directory_.path() + "/quarantine",
                                                                         .run_id = endpoint_.names.run_id,
                                                                         .run_nonce = endpoint_.names.nonce,
                                                                         .bytes_of = bytes_of,
                                                                         .on_outcome = [this] { exchange_->wake(); }});
}

void ProducerRun::start_pipeline() {
    input_ = std::make_unique<Prefetcher>(*device_, *source_,
                                          PrefetchSettings{.input = model_->input(),
                                                           .batch = config_.batch,
                                                           .decode_workers = config_.decode_workers,
                                                           .depth = config_.prefetch,
                                                           .max_errors = config_.max_errors,
                                                           .seed = config_.seed,
                                                           .timeline = timeline_.get(),
                                                           .done = manifest_ ? manifest_->done() : ItemRanges{}});
    egress_ = make_egress(
        rung_, {.config = config_,
                .names = endpoint_.names,
                .device = *device_,
                .compute = *compute_,
                .exchange = exchange_,
                .layout = plan_.layout,
                .timeline = *timeline_,
                .delivery = local_,
                .options = {.stamp = {.run_nonce = endpoint_.names.nonce,
                                      .epoch = endpoint_.epoch,
                                      .transform = transformer_->transform(),
                                      .expansion = transformer_->expansion(),
                                      .model = config_.model,
                                      .precision = config_.precision,
                                      .memory_format = config_.memory_format},
                            .slab_count = plan_.spans.slab_count,
                            .batch = config_.batch,
                            .queue_depth = plan_.queue_depth,
                            .max_delay = std::chrono::nanoseconds(static_cast<std::int64_t>(config_.max_delay_seconds * 1e9))},
                .on_failure = [this] { abandon("the egress failed"); }});
    inference_ = std::make_unique<Inference>(*device_, *model_, *transformer_, *compute_, *timeline_, plan_.layout, plan_.pace);
}

ExitCode ProducerRun::execute() {
    {
        const std::unique_lock lock(parts_lifetime_);
        parts_ready_ = true;
    }
    if (abandoned_) stop_parts();
    if (draining_) input_->finish_early();
    try {
        flow();
    } catch (const Error& problem) {
        if (problem.exit_code() == ExitCode::BadInput && !abandoned_)
            finish_what_was_read();
        else
            fail(std::current_exception());
    } catch (...) {
        fail(std::current_exception());
    }
    if (abandoned_) {
        // What is still being copied is published or given back before the books are closed.
        try {
            egress_->finish();
        } catch (...) {
            fail(std::current_exception());
        }
    }
    try {
        delivery_->join();
    } catch (...) {
        fail(std::current_exception());
    }
    try {
        if (manifest_) manifest_->close();
    } catch (...) {
        fail(std::current_exception());
    }
    ended_ = true;
    retire_parts();
    const RunFigures last = figures();
    if (last.measured_from.at_ns != 0)
        record_range("measure_end", 0, last.broker.last_release_ns, last.broker.last_release_ns);
    report_->write_status(last);
    report_->write_summary(last);
    if (first_error_) std::rethrow_exception(first_error_);
    return outcome(last);
}

// Too many items were unreadable: the run fails, but what could be read and was computed is delivered.
void ProducerRun::finish_what_was_read() {
    note(std::current_exception());
    try {
        egress_->finish();
    } catch (...) {
        fail(std::current_exception());
    }
}

void ProducerRun::flow() {
    if (pool_) pool_->wait_until_first_usable();
    if (config_.measure_limits > 0) measure_limits_before();
    if (config_.drain_warmup || config_.profile_batches > 0)
        flow_measured();
    else
        inference_->run(*input_, *egress_);
    egress_->finish();
    if (config_.measure_limits > 0 && !abandoned_) measure_limits_after();
}

// The clock starts when the warm-up has been delivered and the device is idle; it ends with the last delivery.
void ProducerRun::flow_measured() {
    if (!inference_->run(*input_, *egress_, config_.warmup_batches)) return;
    compute_->synchronize();
    wait_until_delivered();
    {
        const std::lock_guard lock(mutex_);
        before_measured_ = figures_so_far();
    }
    record_range("measure_begin", 0, before_measured_.at_ns, before_measured_.at_ns);
    if (config_.profile_batches > 0) {
        device_->start_profiler();
        const bool more = inference_->run(*input_, *egress_, config_.profile_batches);
        wait_until_delivered();   // the captured steps' copies belong to them, on every rung
        device_->stop_profiler();
        if (!more) return;
    }
    inference_->run(*input_, *egress_);
}

void ProducerRun::wait_until_delivered() const {
    for (;;) {
        const std::uint64_t submitted = egress_->figures().samples_submitted;
        const BrokerReport report = delivery_->report();
        if (abandoned_ || report.completed.samples + report.quarantined.samples >= submitted) return;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}

MeasuredFigures ProducerRun::figures_so_far() const {
    const OutputFigures output = egress_->figures();
    return {.at_ns = now_ns(),
            .batches = delivery_->report().completed.batches,
            .copy_bytes = output.bytes_copied,
            .compute_seconds = inference_->busy_seconds(),
            .copy_seconds = output.copy_seconds,
            .h2d_seconds = input_->progress().h2d_seconds,
            .producer_cpu_seconds = cpu_seconds()};
}

std::unique_ptr<DeviceBuffer> ProducerRun::input_for_limits() {
    const ModelInput input = model_->input();
    return input.kind == InputKind::None ? nullptr : make_resident_input(*device_, input, config_.seed);
}

void ProducerRun::measure_limits_before() {
    if (pool_) pool_->wait_until_all_usable();
    const auto resident = input_for_limits();
    const void* input = resident ? resident->data() : nullptr;
    const double compute =
        measure_compute_alone(*model_, *transformer_, *device_, *compute_, input, kLimitWarmup, config_.measure_limits);
    const double copy = !pool_ ? 0
                               : measure_copy_ceiling(*model_, *transformer_, *device_, *compute_, input, plan_.layout, *exchange_,
                                                      plan_.spans.slab_count, config_.measure_limits);
    const std::lock_guard lock(mutex_);
    limits_ = {compute, copy};
}

// Once more when the device is as warm as the run made it; the faster of the two is what delivery is held against.
void ProducerRun::measure_limits_after() {
    const auto resident = input_for_limits();
    const double compute = measure_compute_alone(*model_, *transformer_, *device_, *compute_, resident ? resident->data() : nullptr,
                                                 kLimitWarmup, config_.measure_limits);
    const std::lock_guard lock(mutex_);
    limits_.compute_batches_per_second = std::max(limits_.compute_batches_per_second, compute);
}

void ProducerRun::drain(const char* why) {
    if (std::string_view(why) == kLauncherGone) launcher_gone_ = true;
    if (draining_.exchange(true)) return;
    spdlog::warn("draining, {}: batches in flight are finished, no more input is read", why);
    const std::shared_lock lock(parts_lifetime_);
    if (parts_ready_) input_->finish_early();
}

void ProducerRun::abandon(const char* why) {
    if (abandoned_.exchange(true)) return;
    spdlog::warn("stopping at once: {}", why);
    draining_ = true;
    exchange_->stop();
    stop_parts();
}

void ProducerRun::stop_parts() {
    const std::shared_lock lock(parts_lifetime_);
    if (!parts_ready_) return;
    input_->finish_early();
    egress_->stop();
    delivery_->abort();
}

// From here on no other thread touches a part.
void ProducerRun::retire_parts() {
    const std::unique_lock lock(parts_lifetime_);
    parts_ready_ = false;
}

void ProducerRun::fail(std::exception_ptr error) {
    note(error);
    abandon("a part failed");
}

// The first error is the run's.
void ProducerRun::note(std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    if (first_error_) return;
    first_error_ = error;
    try {
        std::rethrow_exception(error);
    } catch (const std::exception& problem) {
        failure_ = problem.what();
    } catch (...) {
        failure_ = "an exception of an unknown kind";
    }
}

void ProducerRun::beat() {
    bool anyone = true;
    {
        const std::shared_lock lock(parts_lifetime_);
        if (!parts_ready_) return;
        const RunFigures now = figures();
        report_->write_status(now);
        anyone = std::any_of(now.broker.consumers.begin(), now.broker.consumers.end(),
                             [](const ConsumerReport& consumer) { return consumer.end.empty(); });
    }
    // Nobody is left to start another consumer: what is in flight can never be taken.
    if (launcher_gone_ && !anyone) abandon("the launcher and all consumers are gone");
}

RunFigures ProducerRun::figures() const {
    const Prefetcher::Progress input = input_->progress();
    const OutputFigures output = egress_->figures();
    RunFigures figures{.broker = delivery_->report(),
                       .sourced = input.items_delivered,
                       .skipped = input.holes_delivered,
                       .skipped_items = input_->skipped().list(),
                       .compute_busy_seconds = inference_->busy_seconds(),
                       .copy_seconds = output.copy_seconds,
                       .input_wait_seconds = input.next_blocked_seconds,
                       .slab_wait_seconds = exchange_->wait_seconds(),
                       .output_wait_seconds = inference_->output_wait_seconds(),
                       .seconds_to_first_slab = pool_ ? pool_->seconds_to_first() : 0,
                       .seconds_to_all_slabs = pool_ ? pool_->seconds_to_all() : 0,
                       .so_far = figures_so_far(),
                       .at_ns = now_ns()};
    figures.dropped = {.batches = output.batches_dropped(), .samples = output.samples_dropped()};
    const std::lock_guard lock(mutex_);
    figures.measured_from = before_measured_;
    figures.pinning = pinning_;
    figures.limits = limits_;
    figures.failure = failure_;
    figures.state = !failure_.empty() ? "failed"
                    : ended_          ? (abandoned_ ? "abandoned" : "ended")
                    : draining_       ? "draining"
                    : figures.broker.ended ? "ending"   // consumers have left, the limits are still measured
                                           : "running";
    return figures;
}

// From independent records: what the prefetcher gave out, what the egress dropped, what the broker saw published and done.
ExitCode ProducerRun::outcome(const RunFigures& figures) const {
    const BrokerReport& broker = figures.broker;
    if (!broker.conserved() ||
        figures.sourced != figures.skipped + figures.dropped.samples + broker.published.samples) {
        spdlog::critical(
            "samples are not accounted for: {} sourced, {} skipped, {} dropped, {} published, {} completed, {} in flight, "
            "{} quarantined",
            figures.sourced, figures.skipped, figures.dropped.samples, broker.published.samples, broker.completed.samples,
            broker.in_flight.samples, broker.quarantined.samples);
        return ExitCode::Conservation;
    }
    if (abandoned_ || (draining_ && figures.sourced + done_before() < source_->items())) return ExitCode::Interrupted;
    return broker.given_up.empty() ? ExitCode::Ok : ExitCode::SetAside;
}

}  // namespace offramp
