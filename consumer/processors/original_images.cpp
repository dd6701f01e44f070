#include "consumer/processors/original_images.hpp"

#include "common/base/error.hpp"
#include "common/images/item_keys.hpp"
#include "common/images/unreadable_item.hpp"
#include "consumer/sinks/output_name.hpp"

namespace offramp {
namespace {

FileList listed(const RunConfig& config, std::string_view processor) {
    if (config.input.empty() || (config.source != "auto" && config.source != "images"))
        throw ConfigError("processor " + std::string(processor) + " needs the images that the run reads, and there is no --input with some",
                          "Give --input a folder of images, or choose another --processor");
    return list_image_files(config.input);
}

}  // namespace

OriginalImages::OriginalImages(const RunConfig& config, std::string_view processor)
    : files_(listed(config, processor)), keys_(make_item_keys(files_.key_names())) {
    places_.reserve(keys_.size());
    for (std::size_t i = 0; i < keys_.size(); ++i) places_.emplace(keys_[i], i);
}

OriginalImages::Image OriginalImages::of(std::string_view key) {
    const auto found = places_.find(key);
    if (found == places_.end())
        throw Error(ExitCode::NoInput, "no image of " + files_.description + " is the original of the sample '" + escaped(key) + "'",
                    "Leave the input as it is while a run reads it");
    const std::string path = files_.path(found->second);
    try {
        return {.size = decoder_.decode_file_in_full(path, rgb_), .rgb = &rgb_};
    } catch (const UnreadableItem& problem) {
        throw Error(ExitCode::NoInput,
                    "the original of the sample '" + escaped(key) + "', " + printable(path) + ", cannot be read any more: " +
                                           problem.what(),
                    "Leave the input as it is while a run reads it");
    }
}

}  // namespace offramp
