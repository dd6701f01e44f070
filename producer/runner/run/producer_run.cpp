#include "producer/runner/run/producer_run.hpp"

#include <unistd.h>

#include "common/base/failpoint.hpp"
#include "common/base/log.hpp"
#include "common/base/trace_recording.hpp"
#include "producer/recovery/run_recovery.hpp"
#include "producer/runner/kernels/gpu_choice.hpp"
#include "producer/runner/run/recovery_checks.hpp"
#include "producer/runner/sources/opened_input.hpp"

namespace offramp {
namespace {

Endpoint endpoint_of(const RunConfig& config, const std::string& run_dir) {
    if (config.adopt) {
        Endpoint endpoint = RunRecovery::find(run_dir, config.run_id);
        require_kept_settings(run_dir, config);
        endpoint.producer_pid = static_cast<std::uint64_t>(::getpid());
        return endpoint;
    }
    RunNames names{config.run_id, RunNames::random_nonce()};
    RunNames::check_run_id(names.run_id);
    return {.run_dir = run_dir, .names = names, .producer_pid = static_cast<std::uint64_t>(::getpid()), .epoch = 1};
}

}  // namespace

ProducerRun::ProducerRun(RunConfig config, std::unique_ptr<EgressStrategy> strategy, const EndSignals& signals,
                         std::uint64_t began_ns)
    : config_(std::move(config)),
      strategy_(std::move(strategy)),
      traits_(strategy_->traits()),
      began_ns_(began_ns),
      exchange_(SlabExchange::make()),
      end_watch_(signals, config_.lifeline_fd, lifecycle_,
                 {.work = [this] { beat(); },
                  .interval = std::chrono::milliseconds(static_cast<std::int64_t>(config_.status_seconds * 1e3))}),
      directory_(config_.run_dir, !config_.consumer_user.empty(),
                 config_.adopt ? RunDirectory::Predecessor::Kept : RunDirectory::Predecessor::Replaced),
      endpoint_(endpoint_of(config_, directory_.path())),
      run_lock_(RunLock::hold(endpoint_.names, !config_.adopt, !config_.consumer_user.empty())),
      device_(open_device_for_kernels(config_.device)) {
    device_->use_on_this_thread();
    const DeviceInfo device = device_->info();
    if (device_->is_gpu())
        spdlog::info("device: {}", device.name);
    else
        spdlog::warn("no GPU is used, model and copies run on the CPU ({}){}", device.name,
                     config_.device == "cpu" ? "" : ": " + find_gpus_for_kernels().obstacle);
    compute_ = device_->make_stream("compute");
    timeline_ = std::make_unique<DeviceTimeline>(*device_, *compute_);
    pictures_ =
        open_input(config_, [this] { lifecycle_.require_not_stopped(); });  // told before a model is loaded for it
    open_model();
    lifecycle_.require_not_stopped();
    open_source();
    if (!config_.adopt) open_checkpoint();
    lay_out_slabs();
    start_delivery();
    lifecycle_.require_not_stopped();
    start_pipeline();
    lifecycle_.require_not_stopped();
    directory_.begin();
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
                                    .began_ns = records_ ? records_->memory.progress().began_ns : began_ns_,
                                    .producers = records_ ? records_->memory.progress().producers : 1});
}

// Backwards through the parts: nothing may be copied into a slab, or read the broker's memory, when its owner goes.
ProducerRun::~ProducerRun() {
    lifecycle_.end();
    if (input_) input_->stop();
    egress_.reset();
    inference_.reset();
    delivery_.reset();
    spill_.reset();
    pool_.reset();
}

ExitCode ProducerRun::execute() {
    last_sweep_.armed = true;
    lifecycle_.begin();
    attempt([this] { flow_or_deliver_what_was_read(); });
    if (lifecycle_.is_stopped(StopMode::Halt)) {
        lifecycle_.stop(StopMode::Abandon, "a part failed");  // if nobody said which
        // What is still being copied is published or given back before the totals are closed.
        attempt([this] { egress_->finish(); });
    }
    attempt([this] { delivery_->join(); });
    attempt([this] {
        if (checkpoint_) checkpoint_->close();
    });
    failpoint("run.joined");
    lifecycle_.end();
    const RunFigures last = figures();
    if (last.measured_from.at_ns != 0)
        record_range("measure_end", 0, last.broker.last_release_ns, last.broker.last_release_ns);
    report_->write_status(last);
    if (spill_) SpillStore::remove_folder(spill_->folder());  // before the account: nobody comes after it
    const auto exit = lifecycle_.error() ? std::nullopt : end_of(last);
    report_->write_summary(last, exit);
    failpoint("run.ended");
    if (!exit) std::rethrow_exception(lifecycle_.error());
    return *exit;
}

// Where too many items were unreadable the run fails, but what could be read and was computed is delivered.
void ProducerRun::flow_or_deliver_what_was_read() {
    try {
        flow();
    } catch (const Error& problem) {
        if (problem.exit_code() != ExitCode::BadInput || lifecycle_.is_stopped(StopMode::Abandon)) throw;
        lifecycle_.note(std::current_exception());
        egress_->finish();
    }
}

void ProducerRun::flow() {
    if (pool_) pool_->wait_until_first_usable();
    if (config_.adopt) {  // figures of a run that was interrupted mean nothing
        inference_->run(*input_, *egress_);
        finish_egress();
        return;
    }
    if (config_.measure_limits > 0) measure_limits_before();
    if (config_.drain_warmup || config_.profile_batches > 0)
        flow_measured();
    else
        inference_->run(*input_, *egress_);
    finish_egress();
    if (config_.measure_limits > 0 && !lifecycle_.is_stopped(StopMode::Abandon)) measure_limits_after();
}

// The last outputs, too, may have been such that too many items were skipped.
void ProducerRun::finish_egress() {
    egress_->finish();
    input_->require_good();
}

}  // namespace offramp
