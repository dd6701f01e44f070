#include "producer/run/producer_run.hpp"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>

#include "common/base/clock.hpp"
#include "common/base/log.hpp"
#include "producer/cuda/gpu_search.hpp"
#include "producer/models/copy_model.hpp"
#include "producer/models/model_library.hpp"
#include "producer/pipeline/input_upload.hpp"
#include "producer/pipeline/limits.hpp"

namespace offramp {
namespace {

constexpr std::uint32_t kConsumerCapacity = 64;
constexpr std::uint64_t kLimitWarmup = 5;

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
      began_ns_(began_ns),
      exchange_(SlabExchange::make()),
      end_watch_(signals, config_.lifeline_fd,
                 {.drain = [this](const char* why) { drain(why); },
                  .abandon = [this](const char* why) { abandon(why); },
                  .beat = [this] { beat(); }}),
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
    open_model();
    check_not_stopped();
    open_source();
    lay_out_slabs();
    start_broker();
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
                                    .payload_bytes = layout_.payload_bytes,
                                    .began_ns = began_ns_});
}

// Backwards through the parts: nothing may be copied into a slab, or read the broker's memory, when its owner goes.
ProducerRun::~ProducerRun() {
    retire_parts();
    if (input_) input_->stop();
    egress_.reset();
    inference_.reset();
    broker_.reset();
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
                         .device_index = device_->is_gpu() ? device_->info().index : -1,
                         .stream = compute_->native(),
                         .copy_bytes = config_.copy_bytes};
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

void ProducerRun::lay_out_slabs() {
    const auto rows = config_.samples_per_slab == 0 ? config_.batch : std::min(config_.samples_per_slab, config_.batch);
    layout_ = SlabLayout::make(transformer_->outputs(), rows, 1, source_->max_key_bytes());
    plan_ = SpanPlan::make(config_.slabs, layout_.slab_bytes);
    const bool group = !config_.consumer_user.empty();
    memory_ = std::make_unique<RunMemory>(endpoint_.names, layout_, plan_, kConsumerCapacity, endpoint_.epoch, group);
    ledger_ = std::make_unique<SlabLedger>(SlabLedger::format(memory_->ledger(), endpoint_.epoch));
    pool_ = std::make_unique<SlabPool>(
        endpoint_.names, plan_, [this](std::span<std::byte> span) { return pin_span(span); }, group,
        SlabPool::News{[this] { exchange_->wake(); }, [this](std::exception_ptr error) { fail(error); }});
    spdlog::info("slabs: {} of {:.1f} MiB, {} samples each, in {} spans", plan_.slab_count,
                 static_cast<double>(layout_.slab_bytes) / (1 << 20), layout_.rows, plan_.span_count);
}

std::shared_ptr<void> ProducerRun::pin_span(std::span<std::byte> span) {
    device_->use_on_this_thread();
    std::shared_ptr<void> registration;
    if (!config_.allow_unpinned) registration = device_->pin(span);
    const std::lock_guard lock(mutex_);
    if (!pinning_proved_) prove_pinning(span);
    return registration;
}

// CUDA's own word on the first span, and a timed copy: memory that only seems page-locked costs three quarters of the bandwidth.
void ProducerRun::prove_pinning(std::span<std::byte> span) {
    pinning_ = device_->prove_pinned(span.first(std::min<std::size_t>(span.size(), std::size_t{256} << 20)));
    if (device_->is_gpu() && !pinning_.registered && !config_.allow_unpinned)
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

void ProducerRun::start_broker() {
    const BrokerOptions options{
        .run_nonce = endpoint_.names.nonce,
        .allowed_uids = allowed_uids(config_),
        .lease = std::chrono::nanoseconds(static_cast<std::int64_t>(config_.lease_seconds * 1e9)),
        .max_charges = config_.max_charges,
        .warmup_batches = config_.warmup_batches};
    broker_ = std::make_unique<BrokerThread>(
        [this, options] {
            BrokerThread::Parts parts;
            parts.port = make_zmq_broker_port(endpoint_, !config_.consumer_user.empty());
            parts.broker = std::make_unique<Broker>(
                *ledger_, *parts.port, *exchange_, watch_, clock_, memory_->cells(),
                Broker::SlabMemory{[this](std::uint32_t slab) { return pool_->usable(slab); },
                                   [this](std::uint32_t slab) { return pool_->bytes_of(slab); }},
                options);
            return parts;
        },
        *exchange_, [this] { abandon("the broker failed"); });
    endpoint_.publish();
}

void ProducerRun::start_pipeline() {
    input_ = std::make_unique<Prefetcher>(*device_, *source_,
                                          PrefetchSettings{.input = model_->input(),
                                                           .batch = config_.batch,
                                                           .decode_workers = config_.decode_workers,
                                                           .depth = config_.prefetch,
                                                           .max_errors = config_.max_errors,
                                                           .seed = config_.seed});
    egress_ = std::make_unique<EgressStream>(
        *device_, exchange_, layout_,
        EgressStream::Options{.stamp = {.run_nonce = endpoint_.names.nonce,
                                        .epoch = endpoint_.epoch,
                                        .transform = transformer_->transform(),
                                        .expansion = transformer_->expansion(),
                                        .model = config_.model,
                                        .precision = config_.precision,
                                        .memory_format = config_.memory_format},
                              .slab_count = plan_.slab_count,
                              .batch = config_.batch},
        [this] { abandon("the egress failed"); });
    inference_ = std::make_unique<Inference>(*device_, *model_, *transformer_, *compute_, layout_);
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
        broker_->join();
    } catch (...) {
        fail(std::current_exception());
    }
    ended_ = true;
    retire_parts();
    const RunFigures last = figures();
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
    pool_->wait_until_first_usable();
    if (config_.measure_limits > 0) measure_limits_before();
    inference_->run(*input_, *egress_);
    egress_->finish();
    if (config_.measure_limits > 0 && !abandoned_) measure_limits_after();
}

std::unique_ptr<DeviceBuffer> ProducerRun::input_for_limits() {
    const ModelInput input = model_->input();
    return input.kind == InputKind::None ? nullptr : make_resident_input(*device_, input, config_.seed);
}

void ProducerRun::measure_limits_before() {
    pool_->wait_until_all_usable();
    const auto resident = input_for_limits();
    const void* input = resident ? resident->data() : nullptr;
    const double compute =
        measure_compute_alone(*model_, *transformer_, *device_, *compute_, input, kLimitWarmup, config_.measure_limits);
    const double copy = measure_copy_ceiling(*model_, *transformer_, *device_, *compute_, input, layout_, *exchange_,
                                             plan_.slab_count, config_.measure_limits);
    const std::lock_guard lock(mutex_);
    limits_ = {compute, copy};
}

// Once more when the device is as warm as the run made it; the faster of the two is what delivery is held against.
void ProducerRun::measure_limits_after() {
    const auto resident = input_for_limits();
    const double compute =
        measure_compute_alone(*model_, *transformer_, *device_, *compute_, resident ? resident->data() : nullptr,
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
    broker_->abort();
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
    const EgressStream::Dropped dropped = egress_->dropped();
    RunFigures figures{.broker = broker_->report(),
                       .sourced = input.items_delivered,
                       .skipped = input.holes_delivered,
                       .skipped_items = input_->skipped().list(),
                       .compute_busy_seconds = inference_->busy_seconds(),
                       .copy_seconds = egress_->copy_seconds(),
                       .input_wait_seconds = input.next_blocked_seconds,
                       .slab_wait_seconds = exchange_->wait_seconds(),
                       .output_wait_seconds = inference_->output_wait_seconds(),
                       .seconds_to_first_slab = pool_->seconds_to_first(),
                       .seconds_to_all_slabs = pool_->seconds_to_all(),
                       .at_ns = now_ns()};
    figures.dropped = {.batches = dropped.batches, .samples = dropped.samples};
    const std::lock_guard lock(mutex_);
    figures.pinning = pinning_;
    figures.limits = limits_;
    figures.failure = failure_;
    figures.state = !failure_.empty() ? "failed"
                    : ended_          ? (abandoned_ ? "abandoned" : "ended")
                    : draining_       ? "draining"
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
    if (abandoned_ || (draining_ && figures.sourced < source_->items())) return ExitCode::Interrupted;
    return broker.given_up.empty() ? ExitCode::Ok : ExitCode::SetAside;
}

}  // namespace offramp
