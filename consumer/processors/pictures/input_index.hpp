#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

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

}  // namespace offramp
