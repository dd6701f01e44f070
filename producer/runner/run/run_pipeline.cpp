#include "producer/runner/run/run_pipeline.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <thread>

#include "common/app/settings/effects.hpp"
#include "common/app/settings/sections.hpp"
#include "common/base/clock.hpp"
#include "common/base/error.hpp"
#include "common/base/trace.hpp"
#include "producer/runner/inference/inference.hpp"
#include "producer/runner/ingest/input_upload.hpp"
#include "producer/runner/kernels/gpu_runtime.hpp"
#include "producer/runner/models/run_failure.hpp"

namespace offramp {
namespace {

// A job's shard is a part: other runs read the rest.
ErrorBudget::Of items_of(const RunConfig& config) {
    return config.samples_folder.empty() ? ErrorBudget::Of::Whole : ErrorBudget::Of::Part;
}

std::optional<FailureCause> cause_of(const std::exception_ptr& error) {
    if (!error) return std::nullopt;
    try {
        std::rethrow_exception(error);
    } catch (const RunFailure& failure) {
        return failure.cause();
    } catch (...) {
        return std::nullopt;
    }
}

constexpr std::uint64_t kLimitWarmup = 5;

double cpu_seconds() {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    const auto seconds = [](const timeval& time) {
        return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
    };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace

RunPipeline::RunPipeline(const Parts& parts, Inference::Pace pace)
    : parts_(parts),
      input_(parts_.device, parts_.source,
             PrefetchSettings{
                 .input = parts_.model.model->input(),
                 .batch = parts_.config.batch,
                 .decode_workers = parts_.config.decode_workers,
                 .depth = parts_.config.prefetch,
                 .max_errors = parts_.config.max_errors,
                 .items_are = items_of(parts_.config),
                 .kind = gives_pictures(parts_.config.source) ? ErrorBudget::Items::Pictures : ErrorBudget::Items::Any,
                 .items = parts_.record.share().end - parts_.record.share().begin,
                 .seed = parts_.config.seed,
                 .timeline = &parts_.timeline,
                 .done = parts_.record.done_earlier(parts_.egress.predecessor()),
                 .skipped_before = parts_.egress.predecessor().totals.skipped,
                 .decode_on_gpu = decodes_on_gpu(parts_.config)}),
      review_(make_review()),
      inference_(parts_.device, *parts_.model.model, *parts_.model.transformer, parts_.compute, parts_.timeline,
                 parts_.egress.layout(), pace,
                 records_items(parts_.config) ? Inference::Unread::EmitEmpty : Inference::Unread::Skip, review_.get()),
      measuring_({.config = parts_.config,
                  .lifecycle = parts_.lifecycle,
                  .device = parts_.device,
                  .compute = parts_.compute,
                  .model = *parts_.model.model,
                  .transformer = *parts_.model.transformer,
                  .input = input_,
                  .egress = parts_.egress,
                  .outputs = parts_.outputs,
                  .inference = inference_}) {}

std::unique_ptr<ScoreReview> RunPipeline::make_review() {
    const RunConfig& config = parts_.config;
    if (!separates_foreground(config) && parts_.model.transformer->transform() != OutputTransform::ClassMap)
        return nullptr;
    return std::make_unique<ScoreReview>(
        parts_.egress.layout(),
        ScoreReview::Settings{
            .scale = ForegroundScale::of(config.scores, config.threshold),
            .in_slabs = separates_foreground(config),
            .passed_before = parts_.record.items_done_earlier(parts_.egress.predecessor()),
            .skip = [this](std::uint64_t item, const std::string& reason) { return input_.skip(item, reason); },
            .too_many = [this] { input_.end_for_skipped(); }});
}

void RunPipeline::flow() {
    try {
        run();
    } catch (const Error& problem) {
        if (problem.kind() != ErrorKind::BadInput || parts_.lifecycle.is_stopped(StopMode::Abandon)) throw;
        parts_.lifecycle.note(std::current_exception());
        parts_.outputs.finish();
    }
}

void RunPipeline::run() {
    const RunConfig& config = parts_.config;
    // Measurements of an interrupted run would be meaningless.
    const bool measures_limits = config.measure_limits > 0 && !config.recover;
    // Compute the first batch while its slab is being made; but do not spend a shared turn on waiting for a slab.
    if (parts_.turn.is_shared()) parts_.egress.wait_until_first_usable();
    auto turn = parts_.turn.take([this] { return !parts_.lifecycle.stopped(); });
    if (turn) {
        if (measures_limits) measuring_.measure_limits_before();
        compute();
        if (!measures_limits) turn.reset();  // the egress's remaining work needs no computing
    }
    finish_egress();
    if (turn && !parts_.lifecycle.is_stopped(StopMode::Abandon)) measuring_.measure_limits_after();
}

// If other programs wait for the device, its work is done on return.
void RunPipeline::compute() {
    const RunConfig& config = parts_.config;
    if (!config.recover && (config.drain_warmup || config.profile_batches > 0))
        measuring_.flow();
    else
        inference_.run(input_, parts_.outputs);
    if (parts_.turn.is_shared()) parts_.compute.synchronize();
}

// The last outputs may also exceed the limit of skipped items.
void RunPipeline::finish_egress() {
    parts_.outputs.finish();
    input_.require_good();
}

RunStats RunPipeline::stats() const {
    const EgressRun& egress = parts_.egress;
    const Prefetcher::Progress input = input_.progress();
    const OutputStats output = parts_.outputs.stats();
    const ProgressRecord& previous = egress.predecessor().totals;
    const ComputeTime computed = inference_.computed();
    RunStats stats{.broker = parts_.outputs.report(),
                   .sourced = parts_.record.sourced_before() + input.items_delivered,
                   .skipped = previous.skipped + input.items_skipped + output.samples_rejected,
                   .skipped_items = input_.skipped().list(),
                   .unreadable_upcoming = input_.unreadable_upcoming(),
                   .left_out = parts_.source.left_out(),
                   .compute_busy_seconds = computed.seconds,
                   .compute_busy_batches = computed.batches,
                   .compute_times = computed.times,
                   .copy_seconds = output.copy_seconds,
                   .copy_times = output.copy_times,
                   .input_wait_seconds = input.next_blocked_seconds,
                   .slab_wait_seconds = egress.slab_wait_seconds(),
                   .output_wait_seconds = inference_.output_wait_seconds(),
                   .turn_wait_seconds = parts_.turn.waited_seconds(),
                   .waits_for_turn = parts_.turn.is_waiting(),
                   .seconds_to_first_slab = egress.seconds_to_first_slab(),
                   .seconds_to_all_slabs = egress.seconds_to_all_slabs(),
                   .measured_from = measuring_.from(),
                   .so_far = measuring_.so_far(),
                   .tokens = input.tokens,
                   .padded_tokens = input.padded_tokens,
                   .decoded_on_gpu = input.decoded_on_gpu,
                   .at_ns = now_ns()};
    stats.dropped = {.batches = output.batches_unpublished() + stats.broker.dropped.batches,
                     .samples = previous.dropped + output.samples_unpublished() + stats.broker.dropped.samples};
    stats.dropped_when_full = output.dropped();
    stats.dropped_when_full += stats.broker.dropped;
    stats.dropped_when_full.samples += previous.dropped;
    stats.pinning = egress.pinning();
    stats.failure = parts_.lifecycle.failure();
    stats.failure_cause = cause_of(parts_.lifecycle.error());
    stats.state = parts_.lifecycle.word();
    stats.limits = measuring_.limits();
    return stats;
}

void RunMeasuring::flow() {
    RunOutputs& outputs = parts_.outputs;
    if (!parts_.inference.run(parts_.input, outputs, parts_.config.warmup_batches)) return;
    parts_.compute.synchronize();
    wait_until_delivered();
    const MeasuredStats begin = so_far();
    {
        const std::lock_guard lock(mutex_);
        from_ = begin;
    }
    record_range("measure_begin", 0, begin.at_ns, begin.at_ns);
    if (parts_.config.profile_batches > 0) {
        start_profiler(parts_.device);
        bool more = false;
        {
            const TraceRange range(TraceName::Capture);
            more = parts_.inference.run(parts_.input, outputs, parts_.config.profile_batches);
            wait_until_delivered();  // the capture includes the copies of its steps, on every path
        }
        stop_profiler(parts_.device);
        if (!more) return;
    }
    parts_.inference.run(parts_.input, outputs);
}

void RunMeasuring::wait_until_delivered() const {
    for (;;) {
        const OutputStats output = parts_.outputs.stats();
        const BrokerReport report = parts_.outputs.report();
        const std::uint64_t not_delivered = output.samples_rejected + output.samples_dropped + report.dropped.samples;
        if (parts_.lifecycle.is_stopped(StopMode::Halt) ||
            report.completed.samples + report.dead_lettered.samples + not_delivered >= output.samples_submitted)
            return;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}

MeasuredStats RunMeasuring::so_far() const {
    const OutputStats output = parts_.outputs.stats();
    return {.at_ns = now_ns(),
            .batches = parts_.outputs.report().completed.batches,
            .copy_bytes = output.bytes_copied,
            .compute_seconds = parts_.inference.computed().seconds,
            .copy_seconds = output.copy_seconds,
            .h2d_seconds = parts_.input.progress().h2d_seconds,
            .producer_cpu_seconds = cpu_seconds()};
}

MeasuredStats RunMeasuring::from() const {
    const std::lock_guard lock(mutex_);
    return from_;
}

Limits RunMeasuring::limits() const {
    const std::lock_guard lock(mutex_);
    return limits_;
}

std::unique_ptr<DeviceBuffer> RunMeasuring::resident_input() const {
    const ModelInput input = parts_.model.input();
    return input.kind == InputKind::None ? nullptr : make_resident_input(parts_.device, input, parts_.config.seed);
}

double RunMeasuring::compute_alone(const DeviceBuffer* input) const {
    return measure_compute_alone(parts_.model, parts_.transformer, parts_.device, parts_.compute,
                                 input != nullptr ? input->data() : nullptr, kLimitWarmup,
                                 parts_.config.measure_limits);
}

void RunMeasuring::measure_limits_before() {
    EgressRun& egress = parts_.egress;
    egress.wait_until_all_usable();
    const auto input = resident_input();
    Limits limits{.compute_batches_per_second = compute_alone(input.get())};
    if (egress.has_pool())
        limits.copy_bytes_per_second =
            measure_copy_ceiling(parts_.model, parts_.transformer, parts_.device, parts_.compute,
                                 input ? input->data() : nullptr, egress, parts_.config.measure_limits);
    const std::lock_guard lock(mutex_);
    limits_ = limits;
}

// Delivery is compared with the faster of the two.
void RunMeasuring::measure_limits_after() {
    const double compute = compute_alone(resident_input().get());
    const std::lock_guard lock(mutex_);
    limits_.compute_batches_per_second = std::max(limits_.compute_batches_per_second, compute);
}

}  // namespace offramp
