// What a run measures beside its work: the steady part of it, and the limits that delivery is held against.

#include <sys/resource.h>

#include <algorithm>
#include <thread>

#include "common/base/clock.hpp"
#include "common/base/trace.hpp"
#include "common/base/trace_recording.hpp"
#include "producer/runner/inference/limits.hpp"
#include "producer/runner/ingest/input_upload.hpp"
#include "producer/runner/kernels/profiler.hpp"
#include "producer/runner/run/producer_run.hpp"

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

// The clock starts when the warm-up has been delivered and the device is idle; it ends with the last delivery.
void ProducerRun::flow_measured() {
    if (!inference_->run(*input_, egress_->sink(), config_.warmup_batches)) return;
    compute_->synchronize();
    wait_until_delivered();
    {
        const std::lock_guard lock(mutex_);
        before_measured_ = figures_so_far();
    }
    record_range("measure_begin", 0, before_measured_.at_ns, before_measured_.at_ns);
    if (config_.profile_batches > 0) {
        start_profiler(*device_);
        bool more = false;
        {
            const TraceRange range(TraceName::Capture);
            more = inference_->run(*input_, egress_->sink(), config_.profile_batches);
            wait_until_delivered();  // the captured steps' copies belong to them, by whatever way
        }
        stop_profiler(*device_);
        if (!more) return;
    }
    inference_->run(*input_, egress_->sink());
}

void ProducerRun::wait_until_delivered() const {
    for (;;) {
        const std::uint64_t submitted = egress_->sink().figures().samples_submitted;
        const BrokerReport report = egress_->delivery().report();
        if (lifecycle_.is_stopped(StopMode::Halt) || report.completed.samples + report.quarantined.samples >= submitted)
            return;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}

MeasuredFigures ProducerRun::figures_so_far() const {
    const OutputFigures output = egress_->sink().figures();
    return {.at_ns = now_ns(),
            .batches = egress_->delivery().report().completed.batches,
            .copy_bytes = output.bytes_copied,
            .compute_seconds = inference_->computed().seconds,
            .copy_seconds = output.copy_seconds,
            .h2d_seconds = input_->progress().h2d_seconds,
            .producer_cpu_seconds = cpu_seconds()};
}

std::unique_ptr<DeviceBuffer> ProducerRun::input_for_limits() {
    const ModelInput input = model_->input();
    return input.kind == InputKind::None ? nullptr : make_resident_input(*device_, input, config_.seed);
}

void ProducerRun::measure_limits_before() {
    egress_->wait_until_all_usable();
    const auto resident = input_for_limits();
    const void* input = resident ? resident->data() : nullptr;
    const double compute =
        measure_compute_alone(*model_, *transformer_, *device_, *compute_, input, kLimitWarmup, config_.measure_limits);
    const double copy =
        !egress_->has_pool()
            ? 0
            : measure_copy_ceiling(*model_, *transformer_, *device_, *compute_, input, egress_->layout(),
                                   egress_->exchange(), egress_->spans().slab_count, config_.measure_limits);
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

}  // namespace offramp
