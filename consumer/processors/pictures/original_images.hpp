#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/app/images/geometry.hpp"
#include "common/app/images/image_decode.hpp"
#include "common/app/images/picture_list.hpp"
#include "common/app/settings/sections/input_settings.hpp"

namespace offramp {

// The pictures that a run reads, listed as the producer lists them, each found by its sample's key. Owns the list.
// Thread: any, it never changes. Blocks: the constructor on the disk.
class InputIndex {
  public:
    // `processor`: who asks, for messages; `run_dir`: of the run, empty where there is none. Errors: ConfigError when
    // the run's input is not pictures (Usage), or cannot be listed (NoInput); those of require_listed_rows().
    InputIndex(const InputSettings& config, std::string_view processor, const std::string& run_dir);

    const PictureList& pictures() const { return *pictures_; }
    // Errors: Error with NoInput when the input has no such picture.
    std::uint64_t number_of(std::string_view key) const;
    // Nothing when the input has no such picture.
    std::optional<std::uint64_t> find(std::string_view key) const;

  private:
    std::unique_ptr<PictureList> pictures_;
    std::unordered_map<std::string_view, std::uint64_t> numbers_;  // by the list's own keys
};

// Whether a run's samples are made from pictures of its input.
bool has_originals(const InputSettings& run);

// The images that a run's samples were made from, in their own size, found by the samples' keys: a slab holds what the
// model gave, not what it was given. The input is listed as the producer listed it. Owns the list and the last image.
// Thread: one. Blocks: on the disk.
class OriginalImages {
  public:
    // `processor`: who asks, for messages. Errors: ConfigError when the run's input is not images, or of what size
    // their middle is, is not known (Usage); when it cannot be listed (NoInput); those of require_listed_rows().
    OriginalImages(const InputSettings& config, std::string_view processor, const std::string& run_dir = {});

    struct Image {
        ImageSize size;
        // valid until the next call; null where only the size was asked for
        const std::vector<std::uint8_t>* rgb = nullptr;
        const BesideColours* beside = nullptr;  // likewise
        PictureRect seen;                       // by the model: all of it, or its middle
    };
    // Errors: Error with NoInput when the input has no such image any more, or it cannot be read any more.
    Image of(std::string_view key);
    // The same without its pixels, which are not decoded.
    Image size_of(std::string_view key);
    // Errors: Error with Usage when a result's path leads to the very file that the last image was read from, by
    // whatever links: it would be replaced.
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
