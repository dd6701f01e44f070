#include "producer/runner/run/producer_run.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <span>
#include <string>
#include <utility>

#include "common/app/program/own_process.hpp"
#include "common/app/settings/sections.hpp"
#include "common/app/texts/listed_texts.hpp"
#include "common/base/error.hpp"
#include "common/base/failpoint.hpp"
#include "common/base/log.hpp"
#include "common/base/scarcity.hpp"
#include "common/base/trace.hpp"
#include "common/shm/run_files.hpp"
#include "common/tracing/range_file.hpp"
#include "producer/runner/checkpoint/kept_shapes.hpp"
#include "producer/runner/run/defaults.hpp"
#include "producer/runner/run/egress_plan.hpp"
#include "producer/runner/run/encoded_outputs.hpp"
#include "producer/runner/run/encoding_place.hpp"
#include "producer/runner/run/run_ending.hpp"
#include "producer/runner/run/work_record.hpp"
#include "producer/runner/sources/opened_input.hpp"

namespace offramp {
namespace {

void log_stop(StopMode mode, const std::string& why) {
    if (mode == StopMode::Drain)
        spdlog::warn("draining, {}: batches in flight are finished, no more input is read", why);
    else
        spdlog::warn("stopping immediately: {}", why);
}

void keep_picture_stamps(const std::string& path, const BatchSource& source, bool readable_by_group) {
    PictureStamps stamps;
    std::string_view last;
    for (std::uint64_t item = 0; item < source.items(); ++item)
        if (const std::string_view picture = source.key_of_whole(item); picture != last)
            stamps.add(last = picture, source.stamp(item));
    stamps.keep(path, readable_by_group);
}

}  // namespace

// --- the parts ---

ProducerRun::ProducerRun(RunConfig config, std::unique_ptr<EgressStrategy> strategy, const EndSignals& signals,
                         std::uint64_t began_ns)
    : config_(std::move(config)),
      strategy_(std::move(strategy)),
      began_ns_(began_ns),
      lifecycle_(*this, log_stop),
      end_watch_(signals, config_.lifeline_fd, lifecycle_, launcher_,
                 {.work = [this] { beat(); },
                  .interval = std::chrono::milliseconds(static_cast<std::int64_t>(config_.status_seconds * 1e3)),
                  .look = [this] { look_at_trace(); }}),
      place_({.run_dir = config_.run_dir,
              .run_id = config_.run_id,
              .start = config_.recover ? RunStart::Recovered : RunStart::Begun,
              .readable_by_group = !config_.consumer_user.empty(),
              .check_recovered = [this](const std::string& run_dir) { require_kept_settings(run_dir, config_); }}),
      turn_(config_.turn),
      device_(open_device_of(config_)),
      compute_(device_->make_stream("compute")),
      clock_stream_(device_->make_stream("timeline")),
      timeline_(std::make_unique<DeviceTimeline>(*device_, *clock_stream_)) {
    const EgressTraits& traits = strategy_->traits();
    const auto still_wanted = [this] { lifecycle_.require_not_stopped(); };
    InputSettings input = config_;
    if (!input.input_index.empty() && needs_whole_list(config_)) input.input_index.clear();
    OpenedInput opened = open_input(input, still_wanted);  // fails before a model is loaded
    const std::string listed_rows = place_.folder() + "/" + run_files::kListedRows;
    if (opened.texts && place_.is_recovered()) require_listed_rows(listed_rows, *opened.texts);
    if (opened.pictures && gives_columns(config_.source) && place_.is_recovered())
        require_listed_rows(listed_rows, *opened.pictures);
    ModelMetadata metadata = settled_metadata(config_);
    const std::string item_shapes = place_.folder() + "/" + run_files::kItemShapes;
    opened.shapes =
        own_shapes(config_, metadata, opened, *device_, place_.is_recovered() ? item_shapes : "", still_wanted);
    const std::shared_ptr<const ItemShapes> shapes = opened.shapes;
    model_ = open_model(config_, std::move(metadata), traits, *device_, *compute_, opened);
    still_wanted();
    const std::shared_ptr<const TextTable> texts = opened.texts;
    const std::shared_ptr<const PictureList> pictures = gives_columns(config_.source) ? opened.pictures : nullptr;
    const std::string stamps = place_.folder() + "/" + run_files::kPictureStamps;
    source_ = open_source(config_, model_, std::move(opened),
                          place_.is_recovered() ? PictureStamps::kept(stamps) : PictureStamps{}, still_wanted);
    record_ = std::make_unique<WorkRecord>(
        config_, *source_,
        WorkRecord::Place{
            .run_dir = place_.folder(),
            .keeps_results = !traits.outputs_dropped,
            .on_failure = [this](std::exception_ptr error) { fail(std::move(error)); },
            .stitched = stitched_outputs(config_, model_.transformer->outputs(), model_.transformer->upsample_factor()),
            .form = shapes && !shapes->form().shape.empty() ? std::optional(shapes->form()) : std::nullopt});
    const EgressPlan plan = lay_out_slabs(config_, traits, *model_.transformer, *source_, *device_);
    EgressRunOptions options = egress_options(config_, traits, plan, *model_.transformer);
    options.items = source_->items();
    options.batch_starts = starts_of_batches(*source_, model_.model->input().tensor, config_.batch);
    egress_ = std::make_unique<EgressRun>(place_, *device_, *timeline_, std::move(options),
                                          static_cast<RunListener&>(*this), *record_);
    outputs_ = strategy_->make_outputs({.config = config_,
                                        .device = *device_,
                                        .compute = *compute_,
                                        .timeline = *timeline_,
                                        .run = *egress_,
                                        .items = *record_,
                                        .on_failure = [this] { on_stream_failure(); }});
    if (model_.transformer->encodes_any())
        outputs_ = std::make_unique<EncodedOutputs>(
            std::move(outputs_), PictureEncoder::open(*device_, image_quality(config_)),
            EncodedOutputs::Parts{.device = *device_,
                                  .transformer = *model_.transformer,
                                  .layout = egress_->layout(),
                                  .on_failure = [this] { on_stream_failure(); }});
    // Also in a recovered run: its producer may have died before it kept them.
    if (texts) keep_listed_rows(listed_rows, *texts, place_.readable_by_group());
    if (pictures) keep_listed_rows(listed_rows, *pictures, place_.readable_by_group());
    if (shapes) keep_shapes(item_shapes, *shapes);
    if (config_.tile > 0) keep_picture_stamps(stamps, *source_, place_.readable_by_group());
    egress_->open_to_consumers();
    still_wanted();
    pipeline_ = std::make_unique<RunPipeline>(RunPipeline::Parts{.config = config_,
                                                                 .lifecycle = lifecycle_,
                                                                 .device = *device_,
                                                                 .compute = *compute_,
                                                                 .timeline = *timeline_,
                                                                 .model = model_,
                                                                 .source = *source_,
                                                                 .record = *record_,
                                                                 .egress = *egress_,
                                                                 .outputs = *outputs_,
                                                                 .turn = turn_},
                                              plan.pace);
    still_wanted();
    place_.remove_old_reports();
    trace_ = std::make_unique<LiveTrace>(place_.folder(), "producer", "main", [this] {
        device_->use_on_this_thread();
        timeline_->align();
    });
    report_ = std::make_unique<RunReport>(place_.folder(), facts());
}

void ProducerRun::on_begin(RunProgress& progress) {
    progress.began_ns = began_ns_;
    record_->describe(progress);
}

void ProducerRun::check_input(const RunProgress& progress) { require_same_input(progress, *source_); }

void ProducerRun::check_kept(const RunProgress& progress, const Predecessor& predecessor) {
    record_->go_on(progress, predecessor);
}

void ProducerRun::on_pool_failure(std::exception_ptr error) { fail(std::move(error)); }

void ProducerRun::on_broker_failure() { lifecycle_.stop(StopMode::Abandon, "the broker failed"); }

void ProducerRun::on_stream_failure() { lifecycle_.stop(StopMode::Halt, "the egress failed"); }

void ProducerRun::on_delivery_end() { lifecycle_.note_delivery_end(); }

RunFacts ProducerRun::facts() const {
    const SlabLayout& layout = egress_->layout();
    const RunProgress* const progress = egress_->progress();
    return {.run_id = config_.run_id,
            .device = device_->info(),
            .model = model_.model->description(),
            .source = source_->description(),
            .precision = config_.precision,
            .memory_format = config_.memory_format,
            .transform = config_.transform,
            .batch = config_.batch,
            .egress = strategy_->traits().name,
            .random_weights = model_.model->random_weights(),
            .items = record_->share().end - record_->share().begin,
            .done_before = record_->done_before(),
            .slab_payload_bytes = layout.payload_bytes,
            .samples_per_slab = static_cast<std::uint64_t>(layout.rows),
            .batches_per_slab = layout.batches,
            .shm_bytes = egress_->shm_bytes(),
            .began_ns = progress != nullptr ? progress->began_ns : began_ns_,
            .producers = progress != nullptr ? progress->producers : 1};
}

// Destroys the parts in reverse: no copy may write into a slab, and no thread read the broker's memory, after its
// owner is gone.
ProducerRun::~ProducerRun() {
    lifecycle_.end();
    if (pipeline_) pipeline_->stop();
    outputs_.reset();
    egress_.reset();
}

// --- from its start to its end ---

ExitCode ProducerRun::execute() {
    place_.take_ownership();
    lifecycle_.begin();
    attempt([this] { pipeline_->flow(); });
    if (lifecycle_.is_stopped(StopMode::Halt)) {
        lifecycle_.stop(StopMode::Abandon, "a part failed");  // unless an earlier stop has already given the reason
        // Slabs still being copied are published or freed before the totals are closed.
        attempt([this] { outputs_->finish(); });
    }
    attempt([this] {
        outputs_->join();
        lifecycle_.note_delivery_end();  // a run without consumers has no broker to report its end
    });
    attempt([this] { record_->close(); });
    failpoint("run.joined");
    lifecycle_.end();
    trace_->end();
    const RunStats last = pipeline_->stats();
    if (last.measured_from.at_ns != 0)
        record_range("measure_end", 0, last.broker.last_release_ns, last.broker.last_release_ns);
    report_->write_status(last);
    egress_->remove_spilled();  // before the summary: no process reads the spilled slabs after this
    const auto exit = lifecycle_.error() ? std::nullopt : end_of(last);
    report_->write_summary(last, exit);
    failpoint("run.ended");
    if (!exit) std::rethrow_exception(lifecycle_.error());
    return *exit;
}

// Returns nothing if the run's end cannot be recorded, which is then the error.
std::optional<ExitCode> ProducerRun::end_of(const RunStats& last) {
    const ExitCode exit =
        RunOutcome{.items = facts().items, .done_before = record_->done_before(), .stopped = lifecycle_.stopped()}
            .exit_code(last);
    if (exit != ExitCode::Ok && exit != ExitCode::DeadLetters) return exit;
    try {
        record_->end();
        return exit;
    } catch (...) {
        lifecycle_.note(with_limits_named(std::current_exception()));
        return std::nullopt;
    }
}

void ProducerRun::beat() {
    bool anyone = true;
    lifecycle_.while_under_way([&] {
        const RunStats now = pipeline_->stats();
        report_->write_status(now);
        const auto has_consumers = [&](const std::string& group) {
            return std::ranges::any_of(now.broker.consumers, [&](const ConsumerReport& consumer) {
                return consumer.end.empty() && consumer.group == group;
            });
        };
        anyone = now.broker.groups.empty()
                     ? has_consumers("")
                     : std::ranges::all_of(now.broker.groups, [&](const GroupReport& group) {
                           return group.optional || group.in_flight.samples + group.spilled.samples == 0 ||
                                  has_consumers(group.name);
                       });
    });
    if (!anyone) launcher_.no_consumers();
}

void ProducerRun::look_at_trace() {
    lifecycle_.while_under_way([&] { trace_->look(kSteadyClock.now()); });
}

// --- parts of a stop ---

void ProducerRun::end_input() { pipeline_->end_input(); }

void ProducerRun::stop_outputs() { outputs_->stop(); }

void ProducerRun::dismiss_consumers() { outputs_->abort(); }

// --- failures ---

// An error of the step ends the run.
void ProducerRun::attempt(const std::function<void()>& step) {
    try {
        step();
    } catch (...) {
        fail(std::current_exception());
    }
}

void ProducerRun::fail(std::exception_ptr error) {
    lifecycle_.note(with_limits_named(error));
    leave_to_successor(error);
    lifecycle_.stop(StopMode::Abandon, "a part failed");
}

// A lost device ends this process and nothing else: consumers, slabs and progress record stay for the next producer.
// The process ends as if it had been killed, without messages; unwinding would wait for a device that never answers.
void ProducerRun::leave_to_successor(std::exception_ptr error) {
    ErrorKind kind = ErrorKind::None;
    try {
        std::rethrow_exception(error);
    } catch (const Error& problem) {
        kind = problem.kind();
    } catch (...) {
        return;
    }
    const bool device_is_lost = kind == ErrorKind::DeviceBroken || kind == ErrorKind::DeviceOutOfMemory;
    if (!device_is_lost || !place_.owns_run() || !strategy_->traits().survives_producer() ||
        !launcher_.may_be_succeeded())
        return;
    spdlog::critical("{}. Slabs in flight are left to another producer (command recover)", lifecycle_.failure());
    save_recording();
    std::_Exit(to_int(kind));
}

}  // namespace offramp
