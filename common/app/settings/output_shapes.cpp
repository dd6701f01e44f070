#include "common/app/settings/output_shapes.hpp"

#include <charconv>
#include <utility>

namespace offramp {
namespace {

constexpr std::size_t kMaxOutputs = 16;
constexpr std::size_t kMaxSampleDims = 7;
constexpr std::int64_t kMaxExtent = 65536;

// The part before the next `separator`, which is taken off together with it.
std::string_view take_part(std::string_view& text, char separator) {
    const std::size_t end = text.find(separator);
    const std::string_view part = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
    return part;
}

std::optional<std::vector<std::int64_t>> parse_shape(std::string_view text) {
    if (text.empty() || text.back() == 'x') return std::nullopt;
    std::vector<std::int64_t> shape;
    while (!text.empty()) {
        const std::string_view part = take_part(text, 'x');
        std::int64_t extent = 0;
        const auto result = std::from_chars(part.data(), part.data() + part.size(), extent);
        if (result.ec != std::errc() || result.ptr != part.data() + part.size()) return std::nullopt;
        if (extent < 1 || extent > kMaxExtent || shape.size() == kMaxSampleDims) return std::nullopt;
        shape.push_back(extent);
    }
    return shape;
}

}  // namespace

std::optional<OutputShapes> OutputShapes::parse(std::string_view text) {
    if (text.empty() || text.back() == ',') return std::nullopt;
    OutputShapes shapes;
    while (!text.empty()) {
        auto shape = parse_shape(take_part(text, ','));
        if (!shape || shapes.outputs.size() == kMaxOutputs) return std::nullopt;
        shapes.outputs.push_back(std::move(*shape));
    }
    return shapes;
}

}  // namespace offramp
