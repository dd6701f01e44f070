#include "producer/runner/models/network_file.hpp"

#include <algorithm>
#include <utility>

#include "common/base/error.hpp"

namespace offramp {
namespace {

std::string as_toml(const InputMetadata& input) {
    std::string shape;
    for (const std::int64_t side : input.shape) shape += (shape.empty() ? "" : "x") + std::to_string(side);
    return (input.tokens.empty() ? "" : "tokens = \"" + input.tokens + "\"\n") +
           (shape.empty() ? "" : "shape = \"" + shape + "\"\n") + "dtype = \"" + to_string(input.dtype) + "\"";
}

// Text models' inputs have the same names everywhere.
std::string guessed_toml(const std::string& name) {
    for (const auto& [usual, tokens] :
         {std::pair{"input_ids", "ids"}, {"attention_mask", "mask"}, {"token_type_ids", "types"}})
        if (name == usual) return std::string("tokens = \"") + tokens + "\"\nshape = LENGTH";
    return "shape = \"SHAPE\"\ndtype = \"float32\"";
}

// Names from the file, the rest from the existing metadata, by name, or by place if the file has no name.
std::string table_for(const std::string& name, std::size_t place, const ModelMetadata& metadata) {
    const auto known = !name.empty()                    ? std::ranges::find(metadata.inputs, name, &InputMetadata::name)
                       : place < metadata.inputs.size() ? metadata.inputs.begin() + static_cast<std::ptrdiff_t>(place)
                                                        : metadata.inputs.end();
    const bool is_known = known != metadata.inputs.end();
    return "\n[[input]]\nname = \"" +
           (!name.empty() ? name
            : is_known    ? known->name
                          : "NAME") +
           "\"\n" + (is_known ? as_toml(*known) : guessed_toml(name));
}

std::string tables_for(const NetworkInputs& inputs, const ModelMetadata& metadata) {
    std::string text = "Write there, in this order, what one sample of each is:";
    const std::size_t count = std::max(inputs.needed, std::min(inputs.names.size(), metadata.inputs.size()));
    for (std::size_t i = 0; i < count; ++i) text += table_for(inputs.names[i], i, metadata);
    return text;
}

}  // namespace

void check_inputs(const NetworkInputs& inputs, const ModelMetadata& metadata, const std::string& model_file) {
    const std::string model = "the model '" + model_file + "'";
    const std::size_t most = inputs.names.size();
    if (most == 0) throw ConfigError(model + " takes no input", "Use a model that takes input", ErrorKind::BadInput);
    if (inputs.needed > kMostInputs)
        throw ConfigError(model + " takes " + std::to_string(inputs.needed) + " inputs",
                          "Use a model with 1 to 16 inputs", ErrorKind::BadInput);
    const std::size_t table_count = std::max<std::size_t>(metadata.inputs.size(), 1);
    if (table_count < inputs.needed || table_count > most)
        throw ConfigError(model + " takes " + std::to_string(inputs.needed) +
                              (most > inputs.needed ? " to " + std::to_string(most) : "") +
                              (most == 1 ? " input" : " inputs") + ", but " + metadata.file +
                              (metadata.inputs.empty() ? " has no tables [[input]]"
                                                       : " has " + std::to_string(table_count) + " [[input]]"),
                          tables_for(inputs, metadata), ErrorKind::Config);
    // A single input cannot be mixed up.
    for (std::size_t i = 0; i < table_count && table_count > 1; ++i)
        if (const std::string& name = inputs.names[i]; !name.empty() && name != metadata.inputs[i].name)
            throw ConfigError("the input number " + std::to_string(i + 1) + " of " + model + " is '" + name +
                                  "', but " + metadata.file + " calls it '" + metadata.inputs[i].name + "'",
                              tables_for(inputs, metadata), ErrorKind::Config);
}

std::string unpacked_folder(std::string_view maps_line) {
    constexpr std::string_view kTemporary = "/tmp/";
    constexpr std::string_view kInside = "/data/aotinductor/model/";
    const std::size_t begin = maps_line.find('/');
    if (begin == std::string_view::npos) return {};
    const std::string_view path = maps_line.substr(begin);
    if (!path.starts_with(kTemporary)) return {};
    const std::size_t folder_end = path.find('/', kTemporary.size());
    if (folder_end == std::string_view::npos || folder_end == kTemporary.size()) return {};
    const std::size_t name_end = path.find('/', folder_end + 1);
    if (name_end == std::string_view::npos || !path.substr(name_end).starts_with(kInside)) return {};
    return std::string(path.substr(0, folder_end));
}

}  // namespace offramp
