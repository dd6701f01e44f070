#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "common/base/remedy.hpp"
#include "common/safetensors/safetensors_file.hpp"

namespace offramp {

// Opens a file of a model's weights. Errors: those of SafetensorsFile, with the fix: for a file written by torch.save,
// a command that converts it.
inline SafetensorsFile open_weights(const std::string& path) {
    return SafetensorsFile(path,
                           {.what = "the weights",
                            .hint = "Was the file copied completely? Export it again with safetensors.torch.save_file",
                            .hint_of_zip = "Convert a state dict: " + command_to_convert(path) +
                                           "; ./launch/offramp export --weights takes it as it is. Give a whole model "
                                           "as --model FILE.pt or FILE.pt2"});
}

// The prefix of every name in a state dict of a wrapped network: "module." of DataParallel and similar, "_orig_mod." of
// torch.compile, "model." of Lightning, also combined. Empty if some names lack it.
// `tensors` is a map by name.
template <typename Tensors>
std::string wrapper_of(const Tensors& tensors) {
    constexpr std::array<std::string_view, 3> kWrappers{"module.", "_orig_mod.", "model."};
    std::string wrapper;
    while (!tensors.empty()) {
        const auto all_have = [&](std::string_view next) {
            return std::ranges::all_of(tensors, [&](const auto& tensor) {
                return std::string_view(tensor.first).starts_with(wrapper) &&
                       std::string_view(tensor.first).substr(wrapper.size()).starts_with(next);
            });
        };
        const auto next = std::ranges::find_if(kWrappers, all_have);
        if (next == kWrappers.end()) break;
        wrapper += *next;
    }
    return wrapper;
}

}  // namespace offramp
