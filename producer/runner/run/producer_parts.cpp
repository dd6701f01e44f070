// The parts of a run: each is made when those that it needs are there.

#include <algorithm>
#include <utility>

#include "common/base/log.hpp"
#include "common/settings/effects.hpp"
#include "common/settings/processor_results.hpp"
#include "common/wire/mask_form.hpp"
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

// KEY.OUTPUT.EXTENSION; other processors keep items apart otherwise.
bool makes_a_file_of_each_result(const RunConfig& config) {
    return std::ranges::any_of(config.processors(), [](const std::string& name) {
        const ProcessorResults* const known = ProcessorResults::of(name);
        return known != nullptr && known->has_files_of_items() && known->names != FileNames::Key;
    });
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
    if (!strategy_->traits().outputs_dropped)
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

void ProducerRun::open_source(std::shared_ptr<PictureList> pictures) {
    const ModelInput input = model_->input();
    source_ = part_of(source_named(config_.source)
                          .make({.input = &config_,
                                 .model = &config_,
                                 .model_input = input.tensor,
                                 .model_takes_images = input.kind == InputKind::Image,
                                 .parts = input.parts,
                                 .columns_are_read = tells_of_items(config_),
                                 .still_wanted = [this] { lifecycle_.require_not_stopped(); },
                                 .pictures = std::move(pictures)}),
                      config_);
    if (!config_.output.empty() && config_.resume)
        source_ = in_order_of_previous_runs(std::move(source_), config_.output);
    require_results_apart(config_, *source_);
    if (makes_a_file_of_each_result(config_)) require_distinct_results(*source_, transformer_->outputs());
    if (!config_.adopt && !strategy_->traits().outputs_dropped)
        require_no_files_of_others(config_, config_.catalogue, *source_, transformer_->outputs(),
                                   transformer_->upsample_factor());
    spdlog::info("source: {}", source_->description());
}

// Of a run whose outputs go nowhere there is nothing to continue.
void ProducerRun::open_checkpoint(const Predecessor& predecessor) {
    if (config_.resume && config_.output.empty())
        throw ConfigError("--resume needs --output", "Give the output folder of the run that is to be continued");
    if (config_.output.empty() || strategy_->traits().outputs_dropped) return;
    // A producer that died before it published any sample may have left another run's checkpoint there: slabs of empty
    // rows alone are noted by nobody.
    const bool recovers = config_.adopt && predecessor.totals.published.samples > 0;
    const auto earlier = recovers         ? EarlierWork::Recovered
                         : config_.resume ? EarlierWork::Resumed
                                          : EarlierWork::DoneAgain;
    checkpoint_ =
        std::make_unique<RunCheckpoint>(config_, *source_, earlier, [this](std::exception_ptr error) { fail(error); });
}

void ProducerRun::start_pipeline(Inference::Pace pace) {
    input_ = std::make_unique<Prefetcher>(*device_, *source_,
                                          PrefetchSettings{.input = model_->input(),
                                                           .batch = config_.batch,
                                                           .decode_workers = config_.decode_workers,
                                                           .depth = config_.prefetch,
                                                           .max_errors = config_.max_errors,
                                                           .seed = config_.seed,
                                                           .timeline = timeline_.get(),
                                                           .done = done_earlier(),
                                                           .skipped_before = egress_->predecessor().totals.skipped});
    review_ = make_review();
    inference_ = std::make_unique<Inference>(
        *device_, *model_, *transformer_, *compute_, *timeline_, egress_->layout(), pace,
        tells_of_items(config_) ? Inference::Unread::HandOn : Inference::Unread::LeaveOut, review_.get());
    measuring_ = std::make_unique<RunMeasuring>(RunMeasuring::Parts{.config = config_,
                                                                    .lifecycle = lifecycle_,
                                                                    .device = *device_,
                                                                    .compute = *compute_,
                                                                    .model = *model_,
                                                                    .transformer = *transformer_,
                                                                    .input = *input_,
                                                                    .egress = *egress_,
                                                                    .inference = *inference_});
}

std::unique_ptr<ScoreReview> ProducerRun::make_review() {
    if (!tells_foregrounds(config_) && transformer_->transform() != OutputTransform::ClassMap) return nullptr;
    return std::make_unique<ScoreReview>(
        egress_->layout(),
        ScoreReview::Settings{
            .scale = ForegroundScale::of(config_.scores, config_.threshold),
            .in_slabs = tells_foregrounds(config_),
            .passed_before = done_earlier().items(),
            .skip = [this](std::uint64_t item, const std::string& reason) { return input_->skip(item, reason); },
            .too_many = [this] { input_->end_for_skipped(); }});
}

}  // namespace offramp
