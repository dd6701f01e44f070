#include "producer/runner/run/defaults.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include "common/app/images/item_keys.hpp"
#include "common/app/settings/effects.hpp"
#include "common/app/settings/processor_results.hpp"
#include "common/app/settings/sections.hpp"
#include "common/base/error.hpp"
#include "common/wire/tensor_spec.hpp"
#include "producer/runner/models/model_choice.hpp"
#include "producer/runner/sources/npy_file.hpp"
#include "producer/runner/sources/npy_folder.hpp"
#include "producer/runner/sources/picture_source.hpp"

namespace offramp {
namespace {

constexpr std::uint32_t kUnknownImageSize = 224;  // used by torchvision's classifiers and by export

template <class Value>
void settle(Value& setting, const Value& unset, const Value& value) {
    if (setting == unset) setting = value;
}

// The metadata's own value; for another image size, the same share of a picture.
std::uint32_t resize_size_for(std::uint32_t image_size, const ModelMetadata& metadata) {
    if (image_size == 0 || metadata.height == 0) return metadata.resize_size;
    const double share = static_cast<double>(metadata.resize_size) / metadata.height;
    return std::min(static_cast<std::uint32_t>(std::lround(image_size * share)), kLargestImageSize);
}

// With the usual spread of text lengths, 8 % of the tokens are then padding.
constexpr std::uint32_t kGroupsOfABatch = 32;
constexpr std::uint32_t kFewestTogether = 32;  // texts; fewer leave cores idle
constexpr std::uint32_t kMostTogether = 256;
constexpr std::uint32_t kMostOfABatch = 65536;
// Of chosen outputs, which may have a vector for each token: a batch of them is large.
constexpr std::uint32_t kMostTogetherOfTokens = 64;
constexpr std::uint32_t kGroupsOfABatchOfTokens = 8;

// The largest number of texts, about a 32nd of the batch, that divides the batch.
std::uint32_t group_rows_of(std::uint32_t batch) {
    const std::uint32_t wanted = std::min(std::clamp(batch / kGroupsOfABatch, kFewestTogether, kMostTogether), batch);
    for (std::uint32_t rows = wanted; 2 * rows > wanted; --rows)
        if (batch % rows == 0) return rows;
    return batch;
}

void settle_lengths(RunConfig& config, const ModelMetadata& metadata, bool gpu) {
    const bool possible = metadata.any_length && gives_texts(config.source);
    const std::uint32_t given = config.group_rows();
    if (given > 0 && !gives_texts(config.source))
        throw ConfigError("--by-length " + config.by_length + " does not go with --source '" + config.source +
                              "', which gives no texts",
                          "Leave --by-length out");
    if (given > 0 && !possible)
        throw ConfigError(
            "--by-length " + config.by_length + ": the model takes texts of one length only",
            "Export it again: ./launch/offramp export makes models of texts that take any length, and writes "
            "any-length in " +
                metadata.file + "; or leave --by-length out");
    if (!possible || config.by_length == "off") {
        config.by_length = "off";
        return;
    }
    std::uint32_t rows = given > 0 ? given : metadata.batch;
    if (config.batch == 0) {
        const bool of_tokens = !config.output_tensor.empty();
        if (rows == 0) rows = !gpu ? kFewestTogether : of_tokens ? kMostTogetherOfTokens : kMostTogether;
        config.batch =
            std::min(rows * (of_tokens ? kGroupsOfABatchOfTokens : kGroupsOfABatch), kMostOfABatch / rows * rows);
    }
    if (rows == 0) rows = group_rows_of(config.batch);
    if (config.batch % rows != 0)
        throw ConfigError("--batch " + std::to_string(config.batch) + " is not a multiple of " + std::to_string(rows) +
                              (given > 0 ? ", the texts of --by-length" : ", the one batch that the model takes"),
                          "Accepted with it: --batch " +
                              std::to_string(std::min(rows * kGroupsOfABatch, kMostOfABatch / rows * rows)) +
                              ", or another multiple");
    config.by_length = std::to_string(rows);
}

// The pixels of the default batches of small tiles: a network's memory grows with them. Bands take more bytes than
// colours, so batches of them have fewer pixels.
constexpr std::uint64_t kPixelsAtOnceOnGpu = std::uint64_t{64} * 1024 * 1024;
constexpr std::uint64_t kPixelsAtOnceOnCpu = std::uint64_t{4} * 2048 * 2048;

std::uint32_t tiles_at_once(std::uint32_t tile, const ModelMetadata& metadata, bool gpu) {
    const PixelForm form{
        .channels = is_shape_of_bands(metadata.input_shape) ? static_cast<std::uint32_t>(metadata.input_shape[0]) : 0};
    const std::uint64_t pixels =
        (gpu ? kPixelsAtOnceOnGpu : kPixelsAtOnceOnCpu) * PixelForm{}.pixel_bytes() / form.pixel_bytes();
    return static_cast<std::uint32_t>(std::max<std::uint64_t>(1, pixels / (std::uint64_t{tile} * tile)));
}

bool may_be_a_side(std::int64_t extent) { return extent <= std::int64_t{kLargestImageSize}; }

// Pictures are [3, height, width], or 8-bit and [height, width, 3].
void take_shape(ModelMetadata& metadata, const NpyFile& array) {
    const std::span<const std::int64_t> row = array.row_shape();
    const std::string& descr = array.header().descr;
    const bool bytes = descr == "|u1" || descr == "<u1";
    std::size_t height_at = row.size();
    if (row.size() == 3 && bytes && row[2] == 3)
        height_at = 0;
    else if (row.size() == 3 && row[0] == 3)
        height_at = 1;
    if (height_at < row.size() && may_be_a_side(row[height_at]) && may_be_a_side(row[height_at + 1])) {
        metadata.height = static_cast<std::uint32_t>(row[height_at]);
        metadata.width = static_cast<std::uint32_t>(row[height_at + 1]);
    } else {
        metadata.input_shape.assign(row.begin(), row.end());
    }
    metadata.shape_from = "the rows of '" + printable(array.path()) + "'";
}

bool has_shape_of_a_sample(const NpyFile& array) {
    return !array.row_shape().empty() && array.row_shape().size() < kMaxDims &&
           std::ranges::none_of(array.row_shape(), [](std::int64_t extent) { return extent == 0; });
}

}  // namespace

void require_chunks_fit(const RunConfig& config, const ModelMetadata& metadata) {
    if (config.chunk_tokens == 0) return;
    const std::string tokens = "--chunk-tokens " + std::to_string(config.chunk_tokens);
    if (config.source != "text" && !gives_text_tables(config.source))
        throw ConfigError("--source '" + config.source + "' does not go with " + tokens + ": it gives no texts",
                          "Leave --chunk-tokens out, or give --source text, jsonl-text or parquet-text");
    if (!metadata.takes_tokens() || config.chunk_tokens <= metadata.token_length()) return;
    throw ConfigError(
        tokens + ": the model takes " + std::to_string(metadata.token_length()) + " tokens of a text",
        "Give at most that, or export the model with --max-tokens " + std::to_string(config.chunk_tokens));
}

void require_outputs_of_file(const RunConfig& config) {
    if (config.output_tensor.empty() || is_model_file(config.model)) return;
    throw ConfigError("--output-tensor " + config.output_tensor + " does not go with --model '" + config.model +
                          "', which is not a file with a model",
                      "Leave --output-tensor out, or give --model FILE.pt2 or FILE.pt");
}

void require_tiles_fit(const RunConfig& config, const ModelMetadata& metadata) {
    if (config.tile == 0) return;
    const std::string tile = "--tile " + std::to_string(config.tile);
    if (!gives_pictures(config.source))
        throw ConfigError("--source '" + config.source + "' does not go with " + tile + ": it gives no pictures",
                          "Leave --tile out, or give --input pictures");
    if (metadata.height == 0 || (metadata.height == config.tile && metadata.width == config.tile)) return;
    throw ConfigError(
        tile + ": the model takes pictures of " + std::to_string(metadata.height) + " x " +
            std::to_string(metadata.width) + " pixels",
        metadata.height == metadata.width
            ? "Give --tile " + std::to_string(metadata.height) + ", or export the model with --image-size " +
                  std::to_string(config.tile)
            : "Export the model with --image-size " + std::to_string(config.tile) + ", or leave --tile out");
}

void require_decoder_fits(const RunConfig& config) {
    if (config.decode != "gpu") return;
    if (!gives_pictures(config.source))
        throw ConfigError("--decode gpu does not go with --source '" + config.source + "': it gives no pictures",
                          "Leave --decode out, or give --input pictures");
    if (config.tile > 0)
        throw ConfigError("--decode gpu does not go with --tile: the CPU decodes pictures that are cut into tiles",
                          "Leave --decode out");
}

RunConfig resolve_defaults(RunConfig config, const MachineSize& machine, const ModelMetadata& metadata,
                           const EgressTraits& traits) {
    const bool gpu = machine.has_gpu;
    const bool copy = config.model == "copy";
    const bool file = is_model_file(config.model);
    const bool pictures = file ? metadata.takes_pictures() : !copy && config.model != "encoder";
    const auto cores = static_cast<std::uint32_t>(machine.cores);
    if (config.profile == "embeddings" || (metadata.takes_tokens() && !config.input.empty()))
        settle<std::string>(config.source, "auto", source_of_texts(config.input));
    // a folder of arrays
    if (metadata.takes_arrays() && !config.input.empty()) settle<std::string>(config.source, "auto", "npy");
    config.source = source_of_input(config.source, config.input);
    settle_lengths(config, metadata, gpu);
    const bool takes_any_batch = config.batch == 0 && metadata.batch == 0;
    settle<std::uint32_t>(config.batch, 0,
                          metadata.batch != 0              ? metadata.batch
                          : gpu || metadata.takes_tokens() ? 64
                          : copy                           ? 8
                                                           : 4);
    if (config.tile > 0) {
        if (takes_any_batch) config.batch = std::min(config.batch, tiles_at_once(config.tile, metadata, gpu));
        settle<std::uint32_t>(config.image_size, 0, config.tile);
        config.overlap = std::to_string(config.overlap_pixels());
        settle<std::string>(config.processor, "auto", "mask-png");
    }
    // A model's file gets the same pictures on every machine. `cutout` was trained for its size.
    if (metadata.height == 0 && metadata.shape_from.empty() && !keeps_shapes(config))
        settle<std::uint32_t>(config.image_size, 0,
                              config.model == "cutout" ? 256
                              : gpu && !file           ? 512
                                                       : kUnknownImageSize);
    if (pictures && config.tile == 0 && !keeps_shapes(config))
        settle<std::uint32_t>(config.resize_size, 0, resize_size_for(config.image_size, metadata));
    settle<std::string>(config.interpolation, "auto", metadata.interpolation);
    // Consumers derive the middle of an original, and the network's enlargement, from this value.
    if (pictures && !keeps_shapes(config) && metadata.height == metadata.width && metadata.height >= kSmallestImageSize)
        settle<std::uint32_t>(config.image_size, 0, metadata.height);
    settle<std::uint64_t>(config.copy_bytes, 0, gpu ? std::uint64_t{64} * 21 * 512 * 512 * 4 : std::uint64_t{16} << 20);
    if (config.source == "synthetic") settle<std::uint64_t>(config.batches, 0, 20);
    if (traits.has_consumers()) settle<std::uint32_t>(config.consumers, 0, gpu ? std::clamp(cores / 2, 2U, 8U) : 2);
    settle<std::string>(
        config.decode, "auto",
        machine.gpu_decodes && pictures && gives_pictures(config.source) && config.tile == 0 ? "gpu" : "cpu");
    settle<std::uint32_t>(config.decode_workers, 0, gpu ? std::clamp(cores / 2, 2U, 8U) : std::clamp(cores, 1U, 4U));
    settle<std::string>(config.precision, "auto",
                        !metadata.precision.empty() ? metadata.precision
                        : gpu                       ? "tf32"
                                                    : "fp32");
    // Only models of images have a choice, and a model file fixes it. In fp32 cuDNN has no fast kernels for dilated
    // convolutions of channels-last tensors: a batch of DeepLabV3 took 15 s instead of 0.64 s.
    settle<std::string>(config.memory_format, "auto",
                        file                                               ? metadata.memory_format
                        : pictures && !(gpu && config.precision == "fp32") ? "channels-last"
                                                                           : "contiguous");
    settle<std::string>(config.scores, "auto", !metadata.scores.empty() ? metadata.scores : "probability");
    // A model file's outputs are known only after loading: consumers choose by the tensors they get.
    const std::string of_pictures = file ? "auto" : "mask-png";
    const std::string of_others = config.output.empty() || copy ? "checksum" : "npy";
    settle<std::string>(config.processor, "auto",
                        pictures && !keeps_shapes(config) ? of_pictures
                        : metadata.takes_tokens()         ? processor_for_vectors(config)
                                                          : of_others);
    return config;
}

std::string warning_about_size(const RunConfig& given, const RunConfig& resolved) {
    const bool file = is_model_file(resolved.model);
    const bool sized = keeps_shapes(resolved) || resolved.input.empty() || given.image_size != 0 || given.tile != 0 ||
                       resolved.image_size == 0;
    if (sized || (!file && (resolved.model != "deeplabv3-resnet50" || resolved.image_size != kUnknownImageSize)))
        return {};
    const std::string size = std::to_string(resolved.image_size) + " x " + std::to_string(resolved.image_size);
    if (!file) return "pictures are resized to " + size + " pixels, the default on a CPU; --image-size N gives another";
    const ModelMetadata metadata = read_model_metadata(resolved.model);
    if (!metadata.takes_pictures() || metadata.height != 0) return {};
    return "pictures are resized to " + size + " pixels, a default: neither '" + resolved.model + "' nor " +
           metadata.file +
           " states the size that the model was made for. Give --image-size N, or write image-size = N there; or give "
           "--resize none, if it takes any size";
}

ModelMetadata settled_metadata(const RunConfig& config) {
    if (!is_model_file(config.model)) return {};
    ModelMetadata metadata = read_model_metadata(config.model);
    if (config.tile > 0 && is_shape_of_bands(metadata.input_shape))
        for (const std::size_t side : {1, 2})
            if (metadata.input_shape[side] == kVarying) metadata.input_shape[side] = config.tile;
    const bool any_shape = metadata.takes_any_shape();
    const bool is_open = any_shape || (metadata.takes_pictures() && metadata.height == 0 && config.image_size == 0);
    std::error_code ignored;
    if (!is_open || config.input.empty() || source_of_input(config.source, config.input) != "npy") return metadata;
    const bool folder = std::filesystem::is_directory(config.input, ignored);
    const std::vector<std::string> names = folder ? arrays_in(config.input) : std::vector<std::string>{};
    if (folder && (names.empty() || any_shape || keeps_shapes(config))) return metadata;
    const NpyFile array =
        folder ? NpyFile((std::filesystem::path(config.input) / names.front()).string(), NpyFile::Items::Whole)
               : NpyFile(config.input);
    const bool has_samples = has_shape_of_a_sample(array);
    if (any_shape) {
        // The rows of one array are alike; the source checks that the model takes them.
        if (has_samples && array.row_shape().size() == metadata.input_shape.size())
            for (std::size_t dim = 0; dim < metadata.input_shape.size(); ++dim)
                if (metadata.input_shape[dim] == kVarying) metadata.input_shape[dim] = array.row_shape()[dim];
        return metadata;
    }
    if (has_samples) take_shape(metadata, array);
    if (has_samples && folder) metadata.shape_from = "'" + printable(array.path()) + "'";
    return metadata;
}

bool needs_whole_list(const RunConfig& config) {
    if (config.source != "images" || config.limit > 0 || config.tile > 0 || keeps_shapes(config)) return true;
    const ModelMetadata metadata = settled_metadata(config);
    return is_shape_of_bands(metadata.input_shape) && metadata.takes_any_shape();
}

}  // namespace offramp
