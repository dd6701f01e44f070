#pragma once

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "common/wire/tensor_spec.hpp"
#include "producer/runner/models/model_metadata.hpp"

namespace offramp {

// A model file's description of its network's inputs.
struct NetworkInputs {
    std::vector<std::string> names;  // in order; empty if the file has none
    std::size_t needed = 0;          // inputs after these are optional
};

// Checks that the metadata describes each input. Errors: ConfigError: another number of inputs, or other names, with
// the tables [[input]] to write, as far as known (Config); a network without inputs (BadInput).
void check_inputs(const NetworkInputs& inputs, const ModelMetadata& metadata, const std::string& model_file);

// A model's name for an output, made safe for file names, which consumers build from it.
inline std::string plain_output_name(std::string name) {
    for (char& c : name)
        if (!std::isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '_' && c != '-') c = '_';
    return name.substr(0, kMaxTensorName);
}

// Plain names, made unique: a repeated name gets its own place appended, or the next unused number.
inline std::vector<std::string> distinct_output_names(std::vector<std::string> names) {
    constexpr std::size_t kRoomForNumber = 8;
    for (std::string& name : names) name = plain_output_name(std::move(name));
    const std::vector<std::string> wanted = names;
    for (std::size_t i = 1; i < names.size(); ++i) {
        const auto others_end = names.begin() + static_cast<std::ptrdiff_t>(i);
        if (std::find(names.begin(), others_end, wanted[i]) == others_end) continue;
        std::size_t number = i;
        do names[i] = wanted[i].substr(0, kMaxTensorName - kRoomForNumber) + "-" + std::to_string(number++);
        while (std::find(names.begin(), others_end, names[i]) != others_end ||
               std::ranges::find(wanted, names[i]) != wanted.end());
    }
    return names;
}

// The folder into which LibTorch unpacked a package, if this line of /proc/self/maps is of code in it: "/tmp/SckkvS" of
// "... 08:01 42   /tmp/SckkvS/net/data/aotinductor/model/c7.wrapper.so". Otherwise empty.
std::string unpacked_folder(std::string_view maps_line);

}  // namespace offramp
