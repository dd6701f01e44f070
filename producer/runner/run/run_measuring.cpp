#include "producer/runner/run/run_measuring.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "common/base/clock.hpp"
#include "common/base/trace.hpp"
#include "common/base/trace_recording.hpp"
#include "producer/runner/inference/limits.hpp"
#include "producer/runner/ingest/input_upload.hpp"
#include "producer/runner/kernels/profiler.hpp"

namespace offramp {
namespace {

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
            wait_until_delivered();  // the copies of the captured steps belong to them, on any path
        }
        stop_profiler(parts_.device);
        if (!more) return;
    }
    parts_.inference.run(parts_.input, outputs);
}

void RunMeasuring::wait_until_delivered() const {
    for (;;) {
        const std::uint64_t submitted = parts_.outputs.stats().samples_submitted;
        const BrokerReport report = parts_.outputs.report();
        if (parts_.lifecycle.is_stopped(StopMode::Halt) ||
            report.completed.samples + report.dead_lettered.samples >= submitted)
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
