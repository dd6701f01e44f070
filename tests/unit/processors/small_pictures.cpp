#include "tests/unit/processors/small_pictures.hpp"

#include <algorithm>
#include <cstddef>

namespace offramp::test {

std::vector<std::uint8_t> filtered_picture(std::mt19937& random) {
    const auto below = [&](std::size_t bound) { return static_cast<std::size_t>(random() % bound); };
    const bool is_large = below(50) == 0;
    const std::size_t width = 1 + below(is_large ? 500 : 64), height = 1 + below(is_large ? 200 : 64);
    const std::size_t channels = below(2) == 0 ? 1 : 3 + below(2), classes = 1 + below(21), run = 1 + below(40);
    const bool is_noise = below(4) == 0;
    std::vector<std::uint8_t> rows;
    rows.reserve((width * channels + 1) * height);
    std::uint8_t pixel[4] = {};
    std::size_t left = 0;  // of the current run
    for (std::size_t row = 0; row < height; ++row) {
        const bool is_repeated = row > 0 && below(3) == 0;
        rows.push_back(channels == 1 ? 0 : 4);
        if (is_repeated) {
            rows.resize(rows.size() + width * channels);
            std::copy_n(rows.end() - static_cast<std::ptrdiff_t>(2 * width * channels + 1), width * channels,
                        rows.end() - static_cast<std::ptrdiff_t>(width * channels));
            continue;
        }
        for (std::size_t column = 0; column < width; ++column) {
            if (left-- == 0) {
                left = below(2 * run);
                for (std::uint8_t& value : pixel)
                    value = static_cast<std::uint8_t>(channels == 1 ? below(classes)
                                                      : is_noise    ? random()
                                                                    : below(9) - 4);
            }
            rows.insert(rows.end(), pixel, pixel + channels);
        }
    }
    return rows;
}

}  // namespace offramp::test
