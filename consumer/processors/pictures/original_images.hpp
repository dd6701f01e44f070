#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/app/images/geometry.hpp"
#include "common/app/images/image_decode.hpp"
#include "common/app/images/picture_list.hpp"
#include "common/app/settings/sections.hpp"
#include "common/base/string_index.hpp"

namespace offramp {

// The pictures that a run reads, in the producer's order, found by sample key. Owns the list. Thread: any; it never
// changes. Blocks: the constructor, on the disk.
class InputIndex {
  public:
    // `processor`: the caller, for messages; `run_dir`: the run's directory, or empty. Errors: ConfigError when the
    // run's input has no pictures (Usage) or cannot be listed (NoInput); those of require_listed_rows().
    InputIndex(const InputSettings& config, std::string_view processor, const std::string& run_dir);

    const PictureList& pictures() const { return *pictures_; }
    // Errors: Error with NoInput when the input has no such picture.
    std::uint64_t number_of(std::string_view key) const;
    // Returns nothing when the input has no such picture.
    std::optional<std::uint64_t> find(std::string_view key) const;

  private:
    std::unique_ptr<PictureList> pictures_;
    StringIndex numbers_;  // by the list's keys
};

// True if a run's samples are made from pictures of its input.
bool has_originals(const InputSettings& run);

// Finds the original image of each sample by its key, in the original size: a slab holds only the model's output. Lists
// the input as the producer does. Owns the list and the last image. Thread: one. Blocks: on the disk.
class OriginalImages {
  public:
    // `processor`: the caller, for messages. Errors: ConfigError when the run's input has no images, when the size of
    // the middle that the model sees is unknown (Usage), or when the input cannot be listed (NoInput); those of
    // require_listed_rows().
    OriginalImages(const InputSettings& config, std::string_view processor, const std::string& run_dir = {});

    struct Image {
        ImageSize size;
        // valid until the next call; null if only the size was requested
        const std::vector<std::uint8_t>* rgb = nullptr;
        const BesideColours* beside = nullptr;  // like `rgb`
        PictureRect seen;                       // the part that the model saw: the whole image, or its middle
    };
    // Errors: Error with NoInput when the input no longer has the image, or it can no longer be read.
    Image of(std::string_view key);
    // Like of(), but does not decode the pixels.
    Image size_of(std::string_view key);
    // Errors: Error with Usage when the result's path leads, through any links, to the file of the last image, which
    // would be overwritten.
    void require_another_file(const std::string& result) const;

  private:
    template <class Read>
    Image found(std::string_view key, Read&& read);

    InputIndex input_;
    std::string last_;  // the file that the last image was read from
    PictureFrame frame_;
    ImageDecoder decoder_;
    std::vector<std::uint8_t> rgb_;
    BesideColours beside_;
};

}  // namespace offramp
