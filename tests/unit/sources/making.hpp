#pragma once

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include "common/app/settings/effects.hpp"
#include "common/app/settings/run_config.hpp"
#include "producer/runner/sources/batch_source.hpp"
#include "tests/unit/images/picture_files.hpp"

// Sources by their names in the table, and their rows.
namespace offramp::test {

inline std::unique_ptr<BatchSource> make_source(std::string_view name, const RunConfig& config, TensorSpec input,
                                                bool takes_images, std::vector<InputPart> parts = {}) {
    const auto entries = SourceEntry::all();
    const auto entry = std::find_if(entries.begin(), entries.end(), [&](const auto& e) { return e.name == name; });
    if (entry == entries.end()) throw std::runtime_error("not in the table");
    return entry->make({.input = &config,
                        .model = &config,
                        .model_input = std::move(input),
                        .model_takes_images = takes_images,
                        .parts = std::move(parts),
                        .columns_are_read = reads_columns(config)});
}

// The input of a model of pictures, four at a time.
inline TensorSpec picture_input(ImageSize size) {
    const std::int64_t shape[] = {4, 3, size.height, size.width};
    return TensorSpec::contiguous("input", kFloat32, shape);
}

inline Rgb row_of(BatchSource& source, std::uint64_t item, ImageSize size) {
    Rgb pixels(size.rgb_bytes());
    source.load(item, std::as_writable_bytes(std::span(pixels)));
    return pixels;
}

}  // namespace offramp::test
