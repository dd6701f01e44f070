#include "producer/runner/run/run_parts.hpp"

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/app/images/item_keys.hpp"
#include "common/app/settings/effects.hpp"
#include "common/app/settings/processor_results.hpp"
#include "common/base/error.hpp"
#include "common/base/in_parts.hpp"
#include "common/base/log.hpp"
#include "common/wire/output_forms.hpp"
#include "common/wire/shape_text.hpp"
#include "common/wire/tensor_spec.hpp"
#include "producer/runner/checkpoint/kept_shapes.hpp"
#include "producer/runner/checkpoint/run_checkpoint.hpp"
#include "producer/runner/kernels/gpu_runtime.hpp"
#include "producer/runner/models/copy_model.hpp"
#include "producer/runner/models/model_choice.hpp"
#include "producer/runner/models/model_library.hpp"
#include "producer/runner/run/egress_plan.hpp"
#include "producer/runner/run/encoding_place.hpp"
#include "producer/runner/sources/npy_file.hpp"
#include "producer/runner/sources/npy_folder.hpp"
#include "producer/runner/sources/opened_input.hpp"
#include "producer/runner/sources/picture_source.hpp"
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

std::string obstacle_to(Reads reads, const TensorSpec& output, std::uint32_t upsample_factor) {
    switch (reads) {
        case Reads::Masks:
            return obstacle_to_masks(output, upsample_factor);
        case Reads::Pictures:
            return obstacle_to_pictures(output);
        case Reads::Vectors:
            return is_vectors(output) ? "" : "expected vectors: float32, float16 or bfloat16 [N, D]";
        case Reads::Anything:
            break;
    }
    return {};
}

// The format that a processor of the run reads; one that declares nothing reads anything. "auto" means masks if an
// output can become masks, otherwise anything.
Reads reads_of(const std::string& processor, std::span<const TensorSpec> outputs, std::uint32_t upsample_factor) {
    const auto becomes_masks = [&](const TensorSpec& output) {
        return obstacle_to_masks(output, upsample_factor).empty();
    };
    if (processor == "auto") return std::ranges::any_of(outputs, becomes_masks) ? Reads::Masks : Reads::Anything;
    const ProcessorResults* const known = ProcessorResults::of(processor);
    return known == nullptr ? Reads::Anything : known->reads;
}

// The tolerance exceeds rounding.
bool has_proportions_of(const TensorSpec& input, const TensorSpec& output) {
    constexpr double kMost = 1.25;
    if (input.dims != 4 || input.varies()) return true;
    const double wanted = static_cast<double>(input.shape[3]) / static_cast<double>(input.shape[2]);
    const double found =
        static_cast<double>(output.shape[output.dims - 1]) / static_cast<double>(output.shape[output.dims - 2]);
    return std::max(wanted, found) <= kMost * std::min(wanted, found);
}

// Beside scores [N, Q, H, W], a transformer's queries are [N, Q, K]. Boxes are [N, 4 + K + Q, A]: four numbers of a
// box, classes and Q coefficients for each of many anchors.
const TensorSpec* tensor_with_parts(const TensorSpec& scores, std::span<const TensorSpec> outputs) {
    if (!is_class_scores(scores) || scores.shape[1] < 2) return nullptr;
    const std::int64_t parts = scores.shape[1];
    for (const TensorSpec& other : outputs) {
        if (other.dims != 3) continue;
        const bool is_of_queries = other.shape[1] == parts;
        const bool is_of_boxes = other.shape[1] > parts + 4 && other.shape[2] > other.shape[1];
        if (is_of_queries || is_of_boxes) return &other;
    }
    return nullptr;
}

std::string names_of_unwritten(const RunConfig& config, std::span<const TensorSpec> outputs,
                               std::uint32_t upsample_factor) {
    std::string names;
    for (const TensorSpec& output : outputs) {
        const auto takes_it = [&](const std::string& processor) {
            return obstacle_to(reads_of(processor, outputs, upsample_factor), output, upsample_factor).empty();
        };
        if (std::ranges::none_of(config.processors(), takes_it))
            names += (names.empty() ? "" : ", ") + output.describe();
    }
    return names;
}

namespace fs = std::filesystem;

std::string_view whole_of(std::string_view processor) {
    const ProcessorResults* const known = ProcessorResults::of(processor);
    return known == nullptr ? std::string_view() : known->whole;
}

// The file of the first item of a shape.
std::string example_of(const ItemShapes& shapes, const ItemShapes::Shape& shape, const OpenedInput& opened) {
    const std::uint64_t item = shapes.first_of(shape);
    return opened.pictures ? opened.pictures->origin(item) : printable(shapes.files()[item]);
}

// Buffers for the batches ahead hold the largest item: on the host, and on the device.
void require_memory_for(const ItemShapes& shapes, const RunConfig& config, const OpenedInput& opened, bool on_gpu) {
    const ItemShapes::Shape largest = shapes.extremes().front();
    std::uint64_t bytes = sizeof(float) * (std::uint64_t{config.prefetch} + 1) * (on_gpu ? 1 : 2);
    for (const std::int64_t extent : largest) bytes *= static_cast<std::uint64_t>(extent);
    const MachineMemory memory = MachineMemory::read();
    if (memory.total == 0 || bytes <= memory.available) return;
    throw Error(
        ErrorKind::System,
        fmt::format("the buffers for items like {}, {}, take {:.1f} GiB, and {:.1f} GiB of memory are available",
                    example_of(shapes, largest, opened), shape_text(largest), static_cast<double>(bytes) / (1U << 30U),
                    static_cast<double>(memory.available) / (1U << 30U)),
        "Leave this item out of --input, or give a smaller --prefetch");
}

// A file's path within a folder, both without links; nothing if it is outside.
class WithinFolder {
  public:
    explicit WithinFolder(const std::string& folder) : folder_(real(folder)) {}

    std::optional<std::string> name_of(const std::string& file) {
        const fs::path path(file);
        const std::string& parent = real_parent(path.parent_path().string());
        if (parent == folder_) return path.filename().string();
        if (!parent.starts_with(folder_ == "/" ? folder_ : folder_ + "/")) return std::nullopt;
        return parent.substr(folder_ == "/" ? 1 : folder_.size() + 1) + "/" + path.filename().string();
    }

  private:
    static std::string real(const std::string& folder) {
        std::error_code problem;
        const fs::path found = fs::weakly_canonical(folder.empty() ? "." : folder, problem);
        return (problem ? fs::path(folder) : found).string();
    }
    const std::string& real_parent(const std::string& folder) {
        const auto [found, added] = parents_.try_emplace(folder);
        if (added) found->second = real(folder);
        return found->second;
    }

    std::string folder_;
    std::unordered_map<std::string, std::string> parents_;
};

[[noreturn]] void refuse(const std::string& input, const std::string& folder, const std::string& processor) {
    throw ConfigError("--output " + printable(folder) + ": '" + printable(input) +
                          "' is read from there, and results of " + processor + " could replace it",
                      "Give --output another folder");
}

void require_apart(const std::string& folder, const std::string& processor, const RunConfig& config,
                   const BatchSource& source) {
    std::error_code ignored;
    if (!config.input.empty() && fs::is_directory(config.input, ignored) &&
        WithinFolder(config.input).name_of(folder + "/result"))
        throw ConfigError("--output: results in " + printable(folder) + " are in the --input folder " +
                              printable(config.input) +
                              ": they could replace what they are made from, and would be input of the next run",
                          "Give --output a folder beside it");
    WithinFolder within(folder);
    if (!config.input.empty() && !whole_of(processor).empty() && within.name_of(config.input) == whole_of(processor))
        refuse(config.input, folder, processor);
    if (!source.has_files()) return;
    std::vector<std::string> read;
    std::mutex mutex;  // guards it, and `within`
    // Job init compared all items of a list with an index.
    const ItemRange at_hand = source.at_hand();
    in_parts(at_hand.end - at_hand.begin, [&](std::uint64_t begin, std::uint64_t end) {
        std::string outside;  // the last folder that is not in the results' one
        for (std::uint64_t item = at_hand.begin + begin; item < at_hand.begin + end; ++item) {
            // Few inputs end as results do, and only their paths are made and resolved.
            const std::string_view name = source.end_of_file(item);
            if (!name.empty() && !may_end_result(processor, name)) continue;
            const std::string file = source.file(item);
            const std::string_view parent = std::string_view(file).substr(0, file.rfind('/') + 1);
            if (file.empty() || !may_end_result(processor, file) || (!parent.empty() && parent == outside)) continue;
            const std::lock_guard lock(mutex);
            if (auto found = within.name_of(file))
                read.push_back(std::move(*found));
            else
                outside = parent;
        }
    });
    if (read.empty()) return;
    std::sort(read.begin(), read.end());
    const ProcessorResults* const known = ProcessorResults::of(processor);
    const bool is_of_whole = known != nullptr && known->puts_tiles_together;
    for (std::uint64_t item = at_hand.begin; item < at_hand.end; ++item) {
        const std::string begin = std::string(is_of_whole ? source.key_of_whole(item) : source.key(item)) + ".";
        const auto found = std::lower_bound(read.begin(), read.end(), begin);
        if (found != read.end() && found->starts_with(begin)) refuse(*found, folder, processor);
    }
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

std::shared_ptr<const ItemShapes> own_shapes(const RunConfig& config, ModelMetadata& metadata,
                                             const OpenedInput& opened, const Device& device, const std::string& kept,
                                             const StillWanted& still_wanted) {
    const bool pictures = metadata.takes_pictures();
    std::error_code ignored;
    const bool arrays = config.source == "npy" && fs::is_directory(config.input, ignored);
    const bool bands = opened.pictures && is_shape_of_bands(metadata.input_shape) && metadata.takes_any_shape();
    if (!keeps_shapes(config) && !bands && !(metadata.takes_any_shape() && arrays)) return nullptr;
    if (!is_model_file(config.model))
        throw ConfigError(
            "--resize none does not go with --model '" + config.model + "', which is not a file with a model",
            "Leave --resize out, or give --model FILE.pt2 or FILE.pt");
    // A package is compiled for the size in its metadata.
    if (metadata.height != 0 && metadata.shape_from.empty() && config.model.ends_with(".pt2"))
        throw ConfigError("--resize none: the model takes only pictures of " + std::to_string(metadata.height) + " x " +
                              std::to_string(metadata.width) + " pixels (" + metadata.file + ")",
                          "Leave --resize none out; or, if the model takes any size, remove image-size from there");
    if (config.source == "npy" && !arrays) {
        if (pictures && metadata.height == 0)
            throw ConfigError(
                "--resize none: the rows of --input '" + printable(config.input) + "' are neither pictures nor arrays",
                "Leave --resize out", ErrorKind::BadInput);
        return nullptr;  // the rows of one array are alike
    }
    if (!pictures && opened.pictures && !bands)
        throw ConfigError("--resize none: the input has pictures, and the model takes arrays (" + metadata.file + ")",
                          "Give --input FOLDER, which has a .npy file for each sample");
    if (!(pictures && opened.pictures) && !bands && !(arrays && (pictures || metadata.takes_any_shape())))
        throw ConfigError("--resize none: " + (metadata.input_shape.empty()
                                                   ? "the input gives neither pictures nor a folder of arrays"
                                                   : "the model takes only arrays of " +
                                                         shape_text(metadata.input_shape) + " (" + metadata.file + ")"),
                          metadata.input_shape.empty() ? "Leave --resize none out"
                                                       : "Leave --resize none out; or, if the model takes other "
                                                         "shapes, write '?' for what differs in its input-shape");
    if (config.measure_limits > 0)
        throw ConfigError("--measure-limits does not go with items that differ in shape", "Leave --measure-limits out");
    auto shapes = std::make_shared<ItemShapes>(arrays ? arrays_in(config.input) : std::vector<std::string>{});
    const std::uint64_t all = arrays ? shapes->files().size() : opened.pictures->size();
    const std::uint64_t items = config.limit == 0 ? all : std::min(config.limit, all);
    const bool are_kept = !kept.empty() && add_kept_shapes(kept, items, *shapes);
    const auto earlier_form = arrays && !are_kept && config.resume && !config.output.empty()
                                  ? form_of_previous_runs(config.output)
                                  : std::nullopt;
    if (arrays && !are_kept) {
        if (earlier_form) shapes->set_form(*earlier_form);
        add_shapes(config.input, items, metadata.input_shape, metadata.height != 0, still_wanted, *shapes);
    } else if (!are_kept) {
        add_shapes(*opened.pictures, items, metadata.input_shape, still_wanted, *shapes);
    }
    if (shapes->extremes().empty() && earlier_form)
        throw ConfigError("--resume: " + config.output + " holds the work of a run on arrays of " +
                              shape_text(earlier_form->shape) + ", and --input '" + printable(config.input) +
                              "' has none. The first item: " + shapes->first_fault(),
                          "Repeat that run's input, give another --output, or --overwrite instead of --resume");
    if (shapes->extremes().empty())
        throw ConfigError(
            "--input '" + printable(config.input) + "': no item is readable. The first: " + shapes->first_fault(), "",
            ErrorKind::BadInput);
    require_memory_for(*shapes, config, opened, device.is_gpu());
    if (arrays && !shapes->form().is_picture) metadata.input_shape = shapes->form().shape;
    return shapes;
}

OpenedModel open_model(const RunConfig& config, ModelMetadata metadata, const EgressTraits& traits, Device& device,
                       Stream& compute, const OpenedInput& from) {
    const ItemShapes* const shapes = from.shapes.get();
    const auto extremes = [&](const std::set<SampleShape>& refused) {
        std::vector<std::pair<SampleShape, std::string>> found;
        for (SampleShape& shape : shapes->extremes(refused)) {
            std::string item = example_of(*shapes, shape, from);
            found.emplace_back(std::move(shape), std::move(item));
        }
        return found;
    };
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
                         .output_tensors = config.output_tensors(),
                         .copy_outputs = config.copy_outputs,
                         .metadata = std::move(metadata),
                         .shapes = shapes != nullptr ? ExtremeShapes(extremes) : ExtremeShapes()};
    const std::string built_in[] = {"copy"};
    OpenedModel opened;
    opened.model =
        config.model == "copy" ? make_copy_model(options, device) : ModelLibrary::open().make(options, built_in);
    const ModelInput input = opened.model->input();
    opened.transformer = std::make_unique<OutputTransformer>(
        device, opened.model->outputs(), opened.model->upsample_factor(),
        TransformSettings{.transform = config.transform,
                          .output_dtype = config.output_dtype,
                          .confidence = config.confidence,
                          .foreground = ForegroundScale::of(config.scores, config.threshold),
                          .encoded = encoded_range(config),
                          .largest = opened.model->largest_samples()});
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
    const bool compares_results =
        makes_a_file_of_each_result(config) && may_have_equal_results(model.transformer->outputs());
    std::optional<std::uint64_t> indexed;  // the items of the job
    if (compares_results && opened.pictures && opened.pictures->index() != nullptr) {
        indexed = opened.pictures->index()->items_hash;
        opened.pictures = open_pictures(config.source, config.input, still_wanted, config.input_list);
    }
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
                                     .stamps = std::move(stamps),
                                     .shapes = opened.shapes}),
                          config);
    if (indexed && source_hash(*source) != *indexed)
        throw ConfigError("the list of --input '" + printable(config.input) + "' has changed since the job began",
                          "Restore it, or begin another job", ErrorKind::BadInput);
    if (!config.output.empty() && config.resume) source = in_order_of_previous_runs(std::move(source), config.output);
    require_results_apart(config, *source);
    if (compares_results) require_distinct_results(*source, model.transformer->outputs());
    const ItemRange share = share_of(*source, config);
    spdlog::info("source: {}{}", source->description(),
                 config.shard.empty() ? ""
                                      : fmt::format(", of these shard {}: {} from number {} on", config.shard,
                                                    share.end - share.begin, share.begin));
    for (const LeftOut& part : source->left_out()) spdlog::warn("left out of the input: {} {}", part.count, part.what);
    return source;
}

std::vector<std::string> warnings_about_outputs(const RunConfig& config, std::span<const TensorSpec> outputs,
                                                std::uint32_t upsample_factor, const TensorSpec& input) {
    constexpr const char* kInstead = "--processor npy writes every output as it is";
    std::vector<std::string> warnings;
    if (const std::string names = names_of_unwritten(config, outputs, upsample_factor); !names.empty())
        warnings.push_back("not written, since --processor " + config.processor + " does not read them: " + names +
                           ". " + kInstead);
    const auto reads_masks = [&](const std::string& processor) {
        return reads_of(processor, outputs, upsample_factor) == Reads::Masks;
    };
    if (std::ranges::none_of(config.processors(), reads_masks)) return warnings;
    for (const TensorSpec& output : outputs) {
        if (!obstacle_to_masks(output, upsample_factor).empty()) continue;
        if (!has_proportions_of(input, output))
            warnings.push_back(
                describe_output(output) + " becomes masks of " + std::to_string(output.shape[output.dims - 1]) + " x " +
                std::to_string(output.shape[output.dims - 2]) +
                " pixels, which does not have the proportions of the input, " + std::to_string(input.shape[3]) + " x " +
                std::to_string(input.shape[2]) +
                ". If it is channels-last, [N, H, W, C], let the model end with permute(0, 3, 1, 2). " + kInstead);
        else if (const TensorSpec* const other = tensor_with_parts(output, outputs); other != nullptr)
            warnings.push_back(describe_output(output) + " becomes masks of " + std::to_string(output.shape[1]) +
                               " classes. Beside " + describe_output(*other) +
                               " it is probably mask queries or prototypes, which are not classes. " + kInstead);
    }
    return warnings;
}

void require_readable_outputs(const RunConfig& config, std::span<const TensorSpec> outputs,
                              std::uint32_t upsample_factor) {
    for (const std::string& processor : config.processors()) {
        const ProcessorResults* const known = ProcessorResults::of(processor);
        if (known == nullptr) continue;
        std::string reasons;
        bool readable = false;
        for (const TensorSpec& output : outputs) {
            const std::string reason = obstacle_to(known->reads, output, upsample_factor);
            readable = readable || reason.empty();
            reasons += "; " + describe_output(output) + ": " + reason;
        }
        if (!readable)
            throw ConfigError(
                config.flag_before(processor) + processor + " cannot read any output of the model" + reasons,
                "Choose another model, or another processor: npy and safetensors take any output");
    }
}

void require_results_apart(const RunConfig& config, const BatchSource& source) {
    if (config.output.empty()) return;
    for (const std::string& processor : config.processors())
        require_apart(config.results_folder(config.folder_of_samples(), processor), processor, config, source);
}

}  // namespace offramp
