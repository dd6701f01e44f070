#include "consumer/processors/pictures/picture_size.hpp"

#include <algorithm>
#include <cmath>

namespace offramp {

ImageSize size_in_proportion(ImageSize picture, ImageSize made, std::uint32_t side, std::uint32_t longest) {
    const double least = std::max(double{1} * made.width / picture.width, double{1} * made.height / picture.height);
    double width = picture.width * (side > 0 ? double{1} * made.width / side : least);
    double height = picture.height * (side > 0 ? double{1} * made.height / side : least);
    const double less = std::min(
        {1.0, longest / std::max(width, height), std::sqrt(static_cast<double>(kMaxImagePixels) / (width * height))});
    const auto whole = [&](double length) {
        const double most = less < 1.0 ? std::floor(length * less) : std::round(length);
        return static_cast<std::uint32_t>(std::clamp(most, 1.0, static_cast<double>(longest)));
    };
    return {whole(width), whole(height)};
}

}  // namespace offramp
