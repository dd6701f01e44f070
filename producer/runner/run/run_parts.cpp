#include "producer/runner/run/run_parts.hpp"

#include <algorithm>
#include <utility>

#include "common/app/settings/effects.hpp"
#include "common/app/settings/processor_results.hpp"
#include "common/base/log.hpp"
#include "common/wire/output_forms.hpp"
#include "producer/runner/checkpoint/run_checkpoint.hpp"
#include "producer/runner/kernels/gpu_runtime.hpp"
#include "producer/runner/models/copy_model.hpp"
#include "producer/runner/models/model_choice.hpp"
#include "producer/runner/models/model_library.hpp"
#include "producer/runner/run/defaults.hpp"
#include "producer/runner/run/output_checks.hpp"
#include "producer/runner/sources/opened_input.hpp"
#include "producer/runner/sources/source_items.hpp"

namespace offramp {
namespace {

// KEY.OUTPUT.EXTENSION; other processors separate items in other ways.
bool makes_a_file_of_each_result(const RunConfig& config) {
    return std::ranges::any_of(config.processors(), [](const std::string& name) {
        const ProcessorResults* const known = ProcessorResults::of(name);
        return known != nullptr && known->has_files_of_items() && known->names != FileNames::Key;
    });
}

// Consumers choose by the same rule (consumer/processors/processor.cpp).
void log_chosen_processor(const RunConfig& config, const OutputTransformer& transformer) {
    const auto becomes_masks = [&](const TensorSpec& output) {
        return obstacle_to_masks(output, transformer.upsample_factor()).empty();
    };
    if (config.processor != "auto" || std::ranges::any_of(transformer.outputs(), becomes_masks)) return;
    spdlog::warn(
        "no output of the model can become masks ({}): each is written as an array, as by --processor npy. Give "
        "--processor to choose another one",
        transformer.outputs().front().describe());
}

void log_outputs(const RunConfig& config, const OpenedModel& opened) {
    const OutputTransformer& transformer = *opened.transformer;
    require_readable_outputs(config, transformer.outputs(), transformer.upsample_factor());
    const ModelInput input = opened.model->input();
    for (const std::string& warning :
         warnings_about_outputs(config, transformer.outputs(), transformer.upsample_factor(),
                                input.kind == InputKind::Image ? input.tensor : TensorSpec{}))
        spdlog::warn("{}", warning);
}

}  // namespace

std::unique_ptr<Device> open_device_of(const RunConfig& config) {
    auto device = open_device_for_kernels(config.device);
    device->use_on_this_thread();
    const std::string name = device->info().name;
    if (device->is_gpu())
        spdlog::info("device: {}", name);
    else
        spdlog::warn("no GPU is used, model and copies run on the CPU ({}){}", name,
                     config.device == "cpu" ? "" : ": " + find_gpus_for_kernels().obstacle);
    return device;
}

OpenedModel open_model(const RunConfig& config, const EgressTraits& traits, Device& device, Stream& compute) {
    ModelOptions options{.name = config.model,
                         .weights = config.weights,
                         .seed = config.seed,
                         .batch = config.batch,
                         .group_rows = config.group_rows(),
                         .image_size = config.image_size,
                         .precision = config.precision,
                         .memory_format = config.memory_format,
                         .leave_out_enlargement = OutputTransformer::wants_small_outputs(config.transform),
                         .deterministic = config.deterministic,
                         .cuda_graphs = config.cuda_graphs != "off",
                         .device_index = device.is_gpu() ? device.info().index : -1,
                         .stream = compute.native(),
                         .copy_bytes = config.copy_bytes,
                         .copy_outputs = config.copy_outputs,
                         .metadata = settled_metadata(config)};
    const std::string built_in[] = {"copy"};
    OpenedModel opened;
    opened.model =
        config.model == "copy" ? make_copy_model(options, device) : ModelLibrary::open().make(options, built_in);
    opened.transformer = std::make_unique<OutputTransformer>(
        device, opened.model->outputs(), opened.model->upsample_factor(),
        TransformSettings{.transform = config.transform,
                          .output_dtype = config.output_dtype,
                          .confidence = config.confidence,
                          .foreground = ForegroundScale::of(config.scores, config.threshold)});
    spdlog::info("model: {}", opened.model->description());
    log_chosen_processor(config, *opened.transformer);
    if (!traits.outputs_dropped) log_outputs(config, opened);
    if (const std::string warning = opened.model->warning(); !warning.empty()) spdlog::warn("{}", warning);
    if (opened.model->random_weights())
        spdlog::warn(
            "the weights are random: the outputs mean nothing. {} for real ones",
            is_model_file(config.model) ? "Export the model with --weights FILE" : "Give --weights FILE.safetensors");
    return opened;
}

std::unique_ptr<BatchSource> open_source(const RunConfig& config, const OpenedModel& model, OpenedInput opened,
                                         PictureStamps stamps, StillWanted still_wanted) {
    const ModelInput input = model.model->input();
    auto source = part_of(source_named(config.source)
                              .make({.input = &config,
                                     .model = &config,
                                     .model_input = input.tensor,
                                     .model_takes_images = input.kind == InputKind::Image,
                                     .parts = input.parts,
                                     .prompt = input.prompt,
                                     .columns_are_read = reads_columns(config),
                                     .still_wanted = std::move(still_wanted),
                                     .pictures = std::move(opened.pictures),
                                     .texts = std::move(opened.texts),
                                     .stamps = std::move(stamps)}),
                          config);
    if (!config.output.empty() && config.resume) source = in_order_of_previous_runs(std::move(source), config.output);
    require_results_apart(config, *source);
    if (makes_a_file_of_each_result(config)) require_distinct_results(*source, model.transformer->outputs());
    const ItemRange share = share_of(*source, config);
    spdlog::info("source: {}{}", source->description(),
                 config.shard.empty() ? ""
                                      : fmt::format(", of these shard {}: {} from number {} on", config.shard,
                                                    share.end - share.begin, share.begin));
    for (const LeftOut& part : source->left_out()) spdlog::warn("left out of the input: {} {}", part.count, part.what);
    return source;
}

}  // namespace offramp
