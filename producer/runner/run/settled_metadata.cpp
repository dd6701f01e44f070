#include "producer/runner/run/settled_metadata.hpp"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include "common/app/images/item_keys.hpp"
#include "common/app/settings/source_of_input.hpp"
#include "common/wire/tensor_spec.hpp"
#include "producer/runner/models/model_file.hpp"
#include "producer/runner/sources/npy_cases.hpp"
#include "producer/runner/sources/npy_file.hpp"

namespace offramp {
namespace {

bool may_be_a_side(std::int64_t extent) { return extent <= std::int64_t{kLargestImageSize}; }

// Pictures are [3, height, width], or 8-bit and [height, width, 3].
void take_shape(ModelMetadata& metadata, const NpyFile& array) {
    const std::span<const std::int64_t> row = array.row_shape();
    const std::string& descr = array.header().descr;
    const bool bytes = descr == "|u1" || descr == "<u1";
    std::size_t height_at = row.size();
    if (row.size() == 3 && bytes && row[2] == 3)
        height_at = 0;
    else if (row.size() == 3 && row[0] == 3)
        height_at = 1;
    if (height_at < row.size() && may_be_a_side(row[height_at]) && may_be_a_side(row[height_at + 1])) {
        metadata.height = static_cast<std::uint32_t>(row[height_at]);
        metadata.width = static_cast<std::uint32_t>(row[height_at + 1]);
    } else {
        metadata.input_shape.assign(row.begin(), row.end());
    }
    metadata.shape_from = "the rows of '" + printable(array.path()) + "'";
}

}  // namespace

ModelMetadata settled_metadata(const RunConfig& config) {
    if (!is_model_file(config.model)) return {};
    ModelMetadata metadata = read_model_metadata(config.model);
    const bool is_open = metadata.takes_pictures() && metadata.height == 0 && config.image_size == 0;
    std::error_code ignored;
    if (!is_open || config.input.empty() || source_of_input(config.source, config.input) != "npy") return metadata;
    const bool folder = std::filesystem::is_directory(config.input, ignored);
    const std::vector<std::string> names = folder ? arrays_in(config.input) : std::vector<std::string>{};
    if (folder && names.empty()) return metadata;
    const NpyFile array =
        folder ? NpyFile((std::filesystem::path(config.input) / names.front()).string(), NpyFile::Items::Whole)
               : NpyFile(config.input);
    const bool has_samples = !array.row_shape().empty() && array.row_shape().size() < kMaxDims &&
                             std::ranges::none_of(array.row_shape(), [](std::int64_t extent) { return extent == 0; });
    if (has_samples) take_shape(metadata, array);
    if (has_samples && folder) metadata.shape_from = "'" + printable(array.path()) + "'";
    return metadata;
}

}  // namespace offramp
