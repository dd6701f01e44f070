// The parts of a run: each is made when those that it needs are there.

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "common/base/failpoint.hpp"
#include "common/base/log.hpp"
#include "common/settings/processor_results.hpp"
#include "common/settings/slab_work.hpp"
#include "common/shm/shared_region.hpp"
#include "common/wire/mask_form.hpp"
#include "producer/recovery/run_recovery.hpp"
#include "producer/runner/checkpoint/files_of_others.hpp"
#include "producer/runner/models/copy_model.hpp"
#include "producer/runner/models/model_file.hpp"
#include "producer/runner/models/model_library.hpp"
#include "producer/runner/run/producer_run.hpp"
#include "producer/runner/run/readable_outputs.hpp"
#include "producer/runner/run/results_apart.hpp"
#include "producer/runner/sources/named_source.hpp"
#include "producer/runner/sources/result_names.hpp"
#include "producer/runner/sources/source_part.hpp"

namespace offramp {
namespace {

constexpr std::uint32_t kPoolBatchesOnGpu = 8;
constexpr std::uint32_t kPoolBatchesOnCpu = 6;

std::vector<uid_t> allowed_uids(const RunConfig& config) {
    std::vector<uid_t> uids{::geteuid()};
    if (!config.consumer_user.empty()) {
        const passwd* entry = ::getpwnam(config.consumer_user.c_str());
        if (entry == nullptr)
            throw ConfigError("--consumer-user '" + config.consumer_user + "' is not a user of this machine",
                              "Give a name that getent passwd lists");
        uids.push_back(entry->pw_uid);
    }
    return uids;
}

// KEY.OUTPUT.EXTENSION; other processors keep items apart otherwise.
bool makes_a_file_of_each_result(const RunConfig& config) {
    return std::ranges::any_of(config.processors(), [](const std::string& name) {
        const ProcessorResults* const known = ProcessorResults::of(name);
        return known != nullptr && known->has_files_of_items() && !known->one_for_all_outputs;
    });
}

// Takes an output of one channel for the foreground's.
bool reads_foreground(const RunConfig& config) {
    constexpr std::array<std::string_view, 7> kSuch{"auto",    "mask-png", "cut-out",         "mask-rle",
                                                    "overlay", "records",  "records-postgres"};
    return std::ranges::any_of(kSuch, [&](std::string_view name) { return config.has_processor(name); });
}

// Each skipped item becomes a row.
bool tells_of_skipped_items(const RunConfig& config) {
    return config.has_processor("records") || config.has_processor("records-postgres");
}

}  // namespace

void ProducerRun::open_model() {
    ModelOptions options{
        .name = config_.model,
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
        .copy_outputs = config_.copy_outputs,
        .metadata = is_model_file(config_.model) ? read_model_metadata(config_.model) : ModelMetadata{}};
    const std::string built_in[] = {"copy"};
    model_ =
        config_.model == "copy" ? make_copy_model(options, *device_) : ModelLibrary::open().make(options, built_in);
    transformer_ = std::make_unique<OutputTransformer>(
        *device_, model_->outputs(), model_->upsample_factor(),
        TransformSettings{.transform = config_.transform,
                          .output_dtype = config_.output_dtype,
                          .confidence = config_.confidence,
                          .foreground = ForegroundScale::of(config_.scores, config_.threshold)});
    spdlog::info("model: {}", model_->description());
    tell_of_chosen_processor();
    if (!traits_.outputs_dropped)
        require_readable_outputs(config_, transformer_->outputs(), transformer_->upsample_factor());
    if (const std::string caution = model_->caution(); !caution.empty()) spdlog::warn("{}", caution);
    if (model_->random_weights())
        spdlog::warn(
            "the weights are random: the outputs mean nothing. {} for real ones",
            is_model_file(config_.model) ? "Export the model with --weights FILE" : "Give --weights FILE.safetensors");
}

// Consumers choose by the same rule (consumer/processors/processor.cpp).
void ProducerRun::tell_of_chosen_processor() const {
    const auto becomes_masks = [this](const TensorSpec& output) {
        return obstacle_to_masks(output, transformer_->upsample_factor()).empty();
    };
    if (config_.processor != "auto" || std::ranges::any_of(transformer_->outputs(), becomes_masks)) return;
    spdlog::warn(
        "no output of the model can become masks ({}): each is written as an array, as by --processor npy. Another "
        "--processor is chosen by its name",
        transformer_->outputs().front().describe());
}

void ProducerRun::open_source() {
    const ModelInput input = model_->input();
    source_ = part_of(source_named(config_.source)
                          .make({.config = &config_,
                                 .model_input = input.tensor,
                                 .model_takes_images = input.kind == InputKind::Image,
                                 .parts = input.parts,
                                 .still_wanted = [this] { lifecycle_.require_not_stopped(); },
                                 .pictures = std::exchange(pictures_, nullptr)}),
                      config_);
    if (!config_.output.empty() && config_.resume)
        source_ = in_order_of_previous_runs(std::move(source_), config_.output);
    require_results_apart(config_, *source_);
    if (makes_a_file_of_each_result(config_)) require_distinct_results(*source_, transformer_->outputs());
    if (!config_.adopt && !traits_.outputs_dropped)
        require_no_files_of_others(config_, *source_, transformer_->outputs(), transformer_->upsample_factor());
    spdlog::info("source: {}", source_->description());
}

// Of a run whose outputs go nowhere there is nothing to continue.
void ProducerRun::open_checkpoint() {
    if (config_.resume && config_.output.empty())
        throw ConfigError("--resume needs --output", "Give the output folder of the run that is to be continued");
    if (config_.output.empty() || traits_.outputs_dropped) return;
    // A producer that died before it published any sample may have left another run's checkpoint there: slabs of holes
    // alone are noted by nobody.
    const bool takes_over = config_.adopt && predecessor_.totals.published.samples > 0;
    const auto previous = takes_over       ? RunCheckpoint::Predecessor::TakeOver
                          : config_.resume ? RunCheckpoint::Predecessor::Continue
                                           : RunCheckpoint::Predecessor::StartOver;
    checkpoint_ =
        std::make_unique<RunCheckpoint>(config_, *source_, previous, [this](std::exception_ptr error) { fail(error); });
    exchange_->before_publishing([this](const PublishedSlab& slab) { checkpoint_->begin(slab); });
}

std::function<void(const PublishedSlab&)> ProducerRun::completion_noter() {
    if (!checkpoint_) return {};
    return [this](const PublishedSlab& slab) { checkpoint_->completed(slab); };
}

void ProducerRun::lay_out_slabs() {
    plan_ = EgressPlan::make(config_, traits_, transformer_->outputs(), source_->max_key_bytes(),
                             device_->is_gpu() ? kPoolBatchesOnGpu : kPoolBatchesOnCpu);
    spdlog::info("slabs: {} of {:.1f} MiB, {} samples each, in {} spans", plan_.spans.slab_count,
                 static_cast<double>(plan_.layout.slab_bytes) / (1 << 20), plan_.layout.rows, plan_.spans.span_count);
    if (!traits_.caution.empty()) spdlog::warn("{}", traits_.caution);
    spill_ = make_spill();
    if (traits_.has_consumers()) config_.adopt ? recover_memory() : make_memory();
    if (traits_.has_pool()) make_pool();
}

void ProducerRun::make_pool() {
    const bool by_group = !config_.consumer_user.empty();
    SlabPool::Pin pin = [this](std::span<std::byte> span) { return pin_span(span); };
    SlabPool::Listener news{[this] { exchange_->wake(); }, [this](std::exception_ptr error) { fail(error); }};
    pool_ = config_.adopt
                ? RunRecovery::take_slabs(endpoint_.names, plan_.spans, std::move(pin), by_group, std::move(news))
                : std::make_unique<SlabPool>(endpoint_.names, plan_.spans, std::move(pin), by_group, std::move(news));
}

std::shared_ptr<void> ProducerRun::pin_span(std::span<std::byte> span) {
    device_->use_on_this_thread();
    std::shared_ptr<void> registration;
    if (traits_.slabs == EgressTraits::Slabs::PageLockedPool && !config_.allow_unpinned)
        registration = device_->pin(span);
    const std::lock_guard lock(mutex_);
    if (!pinning_proved_) prove_pinning(span);
    return registration;
}

// CUDA's own word on the first span, and a timed copy: memory that only seems page-locked costs three quarters of the
// bandwidth.
void ProducerRun::prove_pinning(std::span<std::byte> span) {
    pinning_ = device_->prove_pinned(span.first(std::min<std::size_t>(span.size(), std::size_t{256} << 20)));
    const bool wanted = traits_.slabs == EgressTraits::Slabs::PageLockedPool && !config_.allow_unpinned;
    if (device_->is_gpu() && !pinning_.registered && wanted)
        throw Error(ExitCode::DeviceUnsupported,
                    "the slabs could not be page-locked: CUDA does not know them as host memory",
                    "Run offramp doctor; or accept slow copies with --allow-unpinned");
    spdlog::info("slabs are {}: {:.1f} GB/s into them", pinning_.registered ? "page-locked" : "ordinary memory",
                 pinning_.gigabytes_per_second);
    pinning_proved_ = true;
}

void ProducerRun::start_delivery() {
    if (!traits_.has_consumers()) {
        delivery_ = strategy_->make_local_delivery({.warmup_batches = config_.warmup_batches,
                                                    .begin =
                                                        [this](const PublishedSlab& slab) {
                                                            if (checkpoint_) checkpoint_->begin(slab);
                                                        },
                                                    .on_completed = completion_noter()});
        return;
    }
    delivery_ = start_broker();
    failpoint("run.meet");
    endpoint_.publish();
    failpoint("run.met");
}

std::unique_ptr<Delivery> ProducerRun::start_broker() {
    const BrokerOptions options{
        .run_nonce = endpoint_.names.nonce,
        .work = SlabWork::of(config_).hash(),
        .allowed_uids = allowed_uids(config_),
        .visibility_timeout = std::chrono::nanoseconds(static_cast<std::int64_t>(config_.lease_seconds * 1e9)),
        .max_charges = config_.max_charges,
        .warmup_batches = config_.warmup_batches,
        .progress = &records_->progress,
        .on_completed = completion_noter(),
        .kill_overdue = config_.kill_overdue,
        .dead_letters = make_dead_letter_writer(),
        .spill = spill_};
    heartbeats_ = std::make_unique<HeartbeatsCopy>(endpoint_.names.cells(),
                                                   static_cast<std::uint32_t>(records_->memory.heartbeats().size()));
    // Without a pool, each slab's memory is made when it is filled.
    const Broker::SlabMemory memory{
        [this](std::uint32_t slab) { return !pool_ || pool_->usable(slab); },
        [this](std::uint32_t slab) { return pool_ ? pool_->bytes_of(slab) : std::span<std::byte>{}; },
        [this] { heartbeats_->refresh(); }};
    return std::make_unique<BrokerThread>(
        [this, options, memory] {
            BrokerThread::Parts parts;
            parts.port = make_zmq_broker_port(endpoint_, !config_.consumer_user.empty());
            parts.broker = std::make_unique<Broker>(records_->ledger, *parts.port, *exchange_, watch_, clock_,
                                                    heartbeats_->records(), memory, options);
            if (config_.adopt) RunRecovery::continue_in(*parts.broker, predecessor_);
            return parts;
        },
        *exchange_, [this] { lifecycle_.stop(StopMode::Abandon, "the broker failed"); });
}

// What is given up is kept in the run's directory, where the launch script finds it.
std::shared_ptr<DeadLetterWriter> ProducerRun::make_dead_letter_writer() {
    const auto bytes_of = [this](std::uint32_t slab) -> DeadLetterWriter::SlabBytes {
        if (pool_ && pool_->usable(slab)) return {pool_->bytes_of(slab), nullptr};
        // Given up by a previous producer, and not mapped by this one's pool yet; or, without a pool, a segment of its
        // own for each slab: whoever filled it goes on to others, the segment stays until the slab is filled again.
        const std::uint32_t span = pool_ ? plan_.spans.span_of(slab) : slab;
        const std::size_t span_bytes = pool_ ? plan_.spans.span_bytes(span) : plan_.layout.slab_bytes;
        auto region = std::make_shared<SharedRegionView>(
            SharedRegionView::attach(endpoint_.names.span(span), SharedRegionView::Access::ReadOnly, span_bytes));
        const auto bytes =
            region->bytes().subspan(pool_ ? plan_.spans.offset_in_span(slab) : 0, plan_.layout.slab_bytes);
        return {bytes, std::move(region)};
    };
    return std::make_shared<DeadLetterWriter>(DeadLetterWriter::Settings{.folder = directory_.path() + "/quarantine",
                                                                         .run_id = endpoint_.names.run_id,
                                                                         .run_nonce = endpoint_.names.nonce,
                                                                         .bytes_of = bytes_of,
                                                                         .on_outcome = [this] { exchange_->wake(); }});
}

// In the run's directory, or, on a disk of its own, in a folder that bears the run's name.
std::shared_ptr<SpillStore> ProducerRun::make_spill() const {
    if (config_.when_full != "spill") return nullptr;
    const std::string name = endpoint_.names.lock();  // "/offramp-RUNID-NONCE.lock"
    const std::string folder = config_.spill_dir.empty()
                                   ? directory_.path() + "/spill"
                                   : config_.spill_dir + name.substr(0, name.rfind('.')) + ".spill";
    return std::make_shared<SpillStore>(folder, [this] { exchange_->wake(); });
}

void ProducerRun::start_pipeline() {
    if (config_.when_full == "drop-newest") dropped_ = std::make_unique<DroppedLog>(directory_.path());
    input_ = std::make_unique<Prefetcher>(*device_, *source_,
                                          PrefetchSettings{.input = model_->input(),
                                                           .batch = config_.batch,
                                                           .decode_workers = config_.decode_workers,
                                                           .depth = config_.prefetch,
                                                           .max_errors = config_.max_errors,
                                                           .seed = config_.seed,
                                                           .timeline = timeline_.get(),
                                                           .done = done_earlier(),
                                                           .skipped_before = predecessor_.totals.holes});
    EgressStream::Options options{
        .header_fields = {.run_nonce = endpoint_.names.nonce,
                          .epoch = endpoint_.epoch,
                          .transform = transformer_->transform(),
                          .upsample_factor = transformer_->upsample_factor(),
                          .model = std::string_view(config_.model).substr(config_.model.rfind('/') + 1),
                          .precision = config_.precision,
                          .memory_format = config_.memory_format},
        .slab_count = plan_.spans.slab_count,
        .batch = config_.batch,
        .queue_depth = plan_.queue_depth,
        .max_delay = std::chrono::nanoseconds(static_cast<std::int64_t>(config_.max_delay_seconds * 1e9)),
        .when_none = dropped_ ? SlabExchange::WhenNone::Return : SlabExchange::WhenNone::Wait,
        .on_dropped = [this](std::uint64_t batch, std::span<const RowInfo> rows) { dropped_->note(batch, rows); }};
    egress_ = strategy_->make_path({.config = config_,
                                    .names = endpoint_.names,
                                    .device = *device_,
                                    .compute = *compute_,
                                    .exchange = exchange_,
                                    .layout = plan_.layout,
                                    .timeline = *timeline_,
                                    .options = std::move(options),
                                    .on_failure = [this] { lifecycle_.stop(StopMode::Halt, "the egress failed"); }});
    review_ = make_review();
    inference_ = std::make_unique<Inference>(
        *device_, *model_, *transformer_, *compute_, *timeline_, plan_.layout, plan_.pace,
        tells_of_skipped_items(config_) ? Inference::Unread::HandOn : Inference::Unread::LeaveOut, review_.get());
}

std::unique_ptr<ScoreReview> ProducerRun::make_review() {
    if (!reads_foreground(config_) && transformer_->transform() != OutputTransform::ClassMap) return nullptr;
    return std::make_unique<ScoreReview>(
        plan_.layout,
        ScoreReview::Settings{
            .scale = ForegroundScale::of(config_.scores, config_.threshold),
            .in_slabs = reads_foreground(config_),
            .passed_before = done_earlier().items(),
            .skip = [this](std::uint64_t item, const std::string& reason) { return input_->skip(item, reason); },
            .too_many = [this] { input_->end_for_skipped(); }});
}

}  // namespace offramp
