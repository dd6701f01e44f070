#include "producer/runner/run/defaults.hpp"

#include <algorithm>
#include <cmath>

#include "common/settings/processor_results.hpp"
#include "common/settings/source_of_input.hpp"
#include "producer/runner/models/model_file.hpp"

namespace offramp {
namespace {

template <class Value>
void settle(Value& setting, const Value& unset, const Value& value) {
    if (setting == unset) setting = value;
}

// The metadata's own; of another image size the same share of a picture.
std::uint32_t resize_size_for(std::uint32_t image_size, const ModelMetadata& metadata) {
    if (image_size == 0 || metadata.height == 0) return metadata.resize_size;
    const double share = static_cast<double>(metadata.resize_size) / metadata.height;
    return std::min(static_cast<std::uint32_t>(std::lround(image_size * share)), kLargestImageSize);
}

}  // namespace

RunConfig resolve_defaults(RunConfig config, const MachineSize& machine, const ModelMetadata& metadata,
                           const EgressTraits& traits) {
    const bool gpu = machine.has_gpu;
    const bool copy = config.model == "copy";
    const bool file = is_model_file(config.model);
    const bool pictures = file ? metadata.takes_pictures() : !copy && config.model != "encoder";
    const auto cores = static_cast<std::uint32_t>(machine.cores);
    if (metadata.takes_tokens() && !config.input.empty()) settle<std::string>(config.source, "auto", "text");
    // a folder of them
    if (metadata.takes_arrays() && !config.input.empty()) settle<std::string>(config.source, "auto", "npy");
    config.source = source_of_input(config.source, config.input);
    settle<std::uint32_t>(config.batch, 0,
                          metadata.batch != 0              ? metadata.batch
                          : gpu || metadata.takes_tokens() ? 64
                          : copy                           ? 8
                                                           : 4);
    // The size that `cutout` was trained for.
    if (metadata.height == 0)
        settle<std::uint32_t>(config.image_size, 0, config.model == "cutout" ? 256 : gpu ? 512 : 224);
    if (pictures) settle<std::uint32_t>(config.resize_size, 0, resize_size_for(config.image_size, metadata));
    settle<std::string>(config.interpolation, "auto", metadata.interpolation);
    // Consumers know the middle of an original by it.
    if (config.resize_size != 0 && metadata.height == metadata.width && metadata.height >= kSmallestImageSize)
        settle<std::uint32_t>(config.image_size, 0, metadata.height);
    settle<std::uint64_t>(config.copy_bytes, 0, gpu ? std::uint64_t{64} * 21 * 512 * 512 * 4 : std::uint64_t{16} << 20);
    if (config.source == "synthetic") settle<std::uint64_t>(config.batches, 0, 20);
    if (traits.has_consumers()) settle<std::uint32_t>(config.consumers, 0, gpu ? std::clamp(cores / 2, 2U, 8U) : 2);
    settle<std::uint32_t>(config.decode_workers, 0, gpu ? std::clamp(cores / 2, 2U, 8U) : std::clamp(cores, 1U, 4U));
    settle<std::string>(config.precision, "auto",
                        !metadata.precision.empty() ? metadata.precision
                        : gpu                       ? "tf32"
                                                    : "fp32");
    // Only a model of images has a choice, and one that a file holds has made it.
    settle<std::string>(config.memory_format, "auto",
                        file       ? metadata.memory_format
                        : pictures ? "channels-last"
                                   : "contiguous");
    settle<std::string>(config.scores, "auto", !metadata.scores.empty() ? metadata.scores : "probability");
    // What a file's model makes of pictures shows when it has been loaded: consumers choose by what they get.
    const std::string of_pictures = file ? "auto" : "mask-png";
    settle<std::string>(config.processor, "auto",
                        pictures                  ? of_pictures
                        : metadata.takes_tokens() ? processor_for_vectors(config)
                                                  : "checksum");
    return config;
}

}  // namespace offramp
