#include "consumer/processors/pictures/original_images.hpp"

#include <sys/stat.h>

#include <string>

#include "common/app/images/item_keys.hpp"
#include "common/app/images/picture_list.hpp"
#include "common/app/images/unreadable_item.hpp"
#include "common/app/settings/sections.hpp"
#include "common/app/texts/listed_texts.hpp"
#include "common/base/error.hpp"
#include "common/shm/run_files.hpp"
#include "consumer/sinks/files/output_name.hpp"

namespace offramp {

bool has_originals(const InputSettings& run) {
    return !run.input.empty() && gives_pictures(source_of_input(run.source, run.input));
}

OriginalImages::OriginalImages(const InputSettings& config, std::string_view processor, const std::string& run_dir)
    : input_(config, processor, run_dir), frame_({config.image_size, config.image_size}, config.resize_size) {
    if (config.resize_size != 0 && (config.image_size == 0 || config.image_size > config.resize_size))
        throw ConfigError(
            "processor " + std::string(processor) + " cannot locate the crop in its originals: --image-size is " +
                std::to_string(config.image_size) + " and --resize-size is " + std::to_string(config.resize_size),
            "Give an --image-size of " + std::to_string(kSmallestImageSize) + " to " +
                std::to_string(config.resize_size));
}

OriginalImages::Image OriginalImages::of(std::string_view key) {
    Image image =
        found(key, [this](const PicturePlace& place) { return decoder_.decode_file_in_full(place, rgb_, &beside_); });
    image.rgb = &rgb_;
    image.beside = &beside_;
    return image;
}

OriginalImages::Image OriginalImages::size_of(std::string_view key) {
    return found(key, [this](const PicturePlace& place) { return decoder_.size_of_file(place, TiffPart::Size); });
}

// `read` returns the size of the picture at a place.
template <class Read>
OriginalImages::Image OriginalImages::found(std::string_view key, Read&& read) {
    const std::uint64_t number = input_.number_of(key);
    try {
        const PicturePlace place = input_.pictures().place(number);
        last_ = place.path;
        const ImageSize size = read(place);
        return {.size = size, .seen = frame_.visible_rect(size)};
    } catch (const UnreadableItem& problem) {
        throw Error(ErrorKind::NoInput,
                    "the original of the sample '" + escaped(key) + "', " + input_.pictures().origin(number) +
                        ", cannot be read any more: " + problem.what(),
                    "Do not change the input during a run");
    }
}

void OriginalImages::require_another_file(const std::string& result) const {
    struct stat of_result {};
    struct stat of_original {};
    if (::stat(result.c_str(), &of_result) != 0 || ::stat(last_.c_str(), &of_original) != 0) return;
    if (of_result.st_dev != of_original.st_dev || of_result.st_ino != of_original.st_ino) return;
    throw Error(
        ErrorKind::Usage,
        "'" + printable(result) + "' would replace the picture that it is made from, '" + printable(last_) + "'",
        "Give --output another folder");
}

namespace {

// Synthetic items may use listed pictures by number: this measures the processors alone.
std::unique_ptr<PictureList> listed(const InputSettings& config, std::string_view processor) {
    const std::string source = source_of_input(config.source == "synthetic" ? "auto" : config.source, config.input);
    if (config.input.empty() || !gives_pictures(source))
        throw ConfigError(
            "processor " + std::string(processor) + " needs the images that the run reads, but --input names none",
            "Give --input a folder of images, or choose another --processor");
    return open_pictures(source, config.input, {}, config.input_list, share_of_list(config));
}

}  // namespace

InputIndex::InputIndex(const InputSettings& config, std::string_view processor, const std::string& run_dir)
    : pictures_(listed(config, processor)) {
    if (!run_dir.empty() && gives_columns(source_of_input(config.source, config.input)))
        require_listed_rows(run_dir + "/" + run_files::kListedRows, *pictures_);
    const ItemRange at_hand = pictures_->at_hand();
    numbers_.reserve(at_hand.end - at_hand.begin);
    for (std::uint64_t number = at_hand.begin; number < at_hand.end; ++number)
        numbers_.add(pictures_->key(number), number, [this](auto other) { return pictures_->key(other); });
}

std::optional<std::uint64_t> InputIndex::find(std::string_view key) const {
    return numbers_.find(key, [this](auto number) { return pictures_->key(number); });
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
