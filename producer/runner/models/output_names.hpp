#pragma once

#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

#include "common/wire/tensor_spec.hpp"

namespace offramp {

// A model's name for an output as a part of a file's name, which consumers build from it.
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

}  // namespace offramp
