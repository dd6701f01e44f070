#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace offramp {

// The outputs of one sample, as a user writes them: "96x256x256,192x128x128" is two, each with its dimensions.
struct OutputShapes {
    std::vector<std::vector<std::int64_t>> outputs;

    // 1 to 16 outputs of 1 to 7 dimensions of 1 to 65536. Nothing when the text is not such a list.
    static std::optional<OutputShapes> parse(std::string_view text);
};

}  // namespace offramp
