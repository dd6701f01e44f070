#include "consumer/processors/pictures/input_index.hpp"

#include <string>

#include "common/app/images/open_pictures.hpp"
#include "common/app/settings/source_of_input.hpp"
#include "common/app/texts/listed_rows.hpp"
#include "common/base/error.hpp"
#include "common/shm/run_files.hpp"
#include "consumer/sinks/files/output_name.hpp"

namespace offramp {
namespace {

// Synthetic items may stand for pictures that lie ready, by their numbers: so the processors' part is measured alone.
std::unique_ptr<PictureList> listed(const InputSettings& config, std::string_view processor) {
    const std::string source = source_of_input(config.source == "synthetic" ? "auto" : config.source, config.input);
    if (config.input.empty() || !gives_pictures(source))
        throw ConfigError(
            "processor " + std::string(processor) + " needs the images that the run reads, but --input names none",
            "Give --input a folder of images, or choose another --processor");
    return open_pictures(source, config.input, {}, config.input_list);
}

}  // namespace

InputIndex::InputIndex(const InputSettings& config, std::string_view processor, const std::string& run_dir)
    : pictures_(listed(config, processor)) {
    if (!run_dir.empty() && gives_columns(source_of_input(config.source, config.input)))
        require_listed_rows(run_dir + "/" + run_files::kListedRows, *pictures_);
    numbers_.reserve(pictures_->size());
    for (std::uint64_t number = 0; number < pictures_->size(); ++number)
        numbers_.emplace(pictures_->key(number), number);
}

std::optional<std::uint64_t> InputIndex::find(std::string_view key) const {
    const auto found = numbers_.find(key);
    return found == numbers_.end() ? std::nullopt : std::optional(found->second);
}

std::uint64_t InputIndex::number_of(std::string_view key) const {
    const auto found = find(key);
    if (!found)
        throw Error(ErrorKind::NoInput,
                    "no image of " + pictures_->description() + " is the original of the sample '" + escaped(key) + "'",
                    "Do not change the input during a run");
    return *found;
}

}  // namespace offramp
