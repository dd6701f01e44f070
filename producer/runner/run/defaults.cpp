#include "producer/runner/run/defaults.hpp"

#include <algorithm>
#include <cmath>

#include "common/settings/source_of_input.hpp"
#include "producer/runner/models/model_file.hpp"

namespace offramp {
namespace {

template <class Value>
void settle(Value& setting, const Value& unset, const Value& value) {
    if (setting == unset) setting = value;
}

// The notes' own; of another image size the same share of a picture.
std::uint32_t resize_size_for(std::uint32_t image_size, const ModelNotes& notes) {
    if (image_size == 0 || notes.height == 0) return notes.resize_size;
    const double share = static_cast<double>(notes.resize_size) / notes.height;
    return std::min(static_cast<std::uint32_t>(std::lround(image_size * share)), kLargestImageSize);
}

}  // namespace

RunConfig resolve_defaults(RunConfig config, const MachineSize& machine, const ModelNotes& notes,
                           const EgressTraits& traits) {
    const bool gpu = machine.has_gpu;
    const bool copy = config.model == "copy";
    const bool file = is_model_file(config.model);
    const bool pictures = file ? notes.takes_pictures() : !copy && config.model != "encoder";
    const auto cores = static_cast<std::uint32_t>(machine.cores);
    if (notes.takes_tokens() && !config.input.empty()) settle<std::string>(config.source, "auto", "text");
    // a folder of them
    if (notes.takes_arrays() && !config.input.empty()) settle<std::string>(config.source, "auto", "npy");
    config.source = source_of_input(config.source, config.input);
    settle<std::uint32_t>(config.batch, 0,
                          notes.batch != 0              ? notes.batch
                          : gpu || notes.takes_tokens() ? 64
                          : copy                        ? 8
                                                        : 4);
    // The size that `cutout` was trained for.
    if (notes.height == 0)
        settle<std::uint32_t>(config.image_size, 0, config.model == "cutout" ? 256 : gpu ? 512 : 224);
    if (pictures) settle<std::uint32_t>(config.resize_size, 0, resize_size_for(config.image_size, notes));
    settle<std::string>(config.interpolation, "auto", notes.interpolation);
    // Consumers know the middle of an original by it.
    if (config.resize_size != 0 && notes.height == notes.width && notes.height >= kSmallestImageSize)
        settle<std::uint32_t>(config.image_size, 0, notes.height);
    settle<std::uint64_t>(config.copy_bytes, 0, gpu ? std::uint64_t{64} * 21 * 512 * 512 * 4 : std::uint64_t{16} << 20);
    if (config.source == "synthetic") settle<std::uint64_t>(config.batches, 0, 20);
    if (traits.has_consumers()) settle<std::uint32_t>(config.consumers, 0, gpu ? std::clamp(cores / 2, 2U, 8U) : 2);
    settle<std::uint32_t>(config.decode_workers, 0, gpu ? std::clamp(cores / 2, 2U, 8U) : std::clamp(cores, 1U, 4U));
    settle<std::string>(config.precision, "auto", !notes.precision.empty() ? notes.precision : gpu ? "tf32" : "fp32");
    // Only a model of images has a choice, and one that a file holds has made it.
    settle<std::string>(config.memory_format, "auto",
                        file       ? notes.memory_format
                        : pictures ? "channels-last"
                                   : "contiguous");
    settle<std::string>(config.scores, "auto", !notes.scores.empty() ? notes.scores : "probability");
    const char* vectors = config.has_postgres_sink() ? "embeddings-postgres" : "embeddings-sqlite";
    // What a file's model makes of pictures shows when it has been loaded: consumers choose by what they get.
    const char* of_pictures = file ? "auto" : "mask-png";
    settle<std::string>(config.processor, "auto", pictures ? of_pictures : notes.takes_tokens() ? vectors : "checksum");
    return config;
}

}  // namespace offramp
