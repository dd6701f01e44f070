#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/wire/tensor_spec.hpp"

namespace offramp {

inline constexpr std::size_t kMostInputs = 16;  // per model

// One input of a model that takes several inputs, or an unusual one: a table [[input]] of the metadata.
struct InputMetadata {
    std::string name;                 // the name of the network's parameter, and of the array's file
    std::string tokens;               // for a text's tokens: "ids"; "mask", 1 for text; "types", zeros. Empty: an array
    std::vector<std::int64_t> shape;  // shape of one sample; tokens: [length]; empty: one number per sample
    DType dtype = kFloat32;           // the model's type; tokens: int64
};

// Facts about a model's input that its file lacks: the TOML file beside it, model.toml beside model.pt2. All its keys
// are optional. The defaults are torchvision's.
struct ModelMetadata {
    std::string file;          // path of the metadata, even if the file does not exist: all values are then defaults
    std::uint32_t batch = 0;   // the only batch size that the model takes; 0: the user sets it
    std::uint32_t height = 0;  // size of the pictures; 0: the user sets it
    std::uint32_t width = 0;
    // length of a picture's shorter side before its middle is cut out; 0: the whole picture
    std::uint32_t resize_size = 0;
    std::string interpolation = "bilinear";  // or "bicubic"
    // shape of a sample that is not a picture, kVarying where samples differ; empty: pictures
    std::vector<std::int64_t> input_shape;
    std::string input_dtype = "float32";  // "bfloat16"; "int32": tokens, [2, length]
    // Either all inputs are tokens of one length, or none is; empty: the keys above describe the one input.
    std::vector<InputMetadata> inputs;
    std::array<float, 3> mean{0.485F, 0.456F, 0.406F};  // in the model's order of colours, for values in [0, 1]
    std::array<float, 3> std{0.229F, 0.224F, 0.225F};
    std::string colour_order = "rgb";          // or "bgr"
    std::string memory_format = "contiguous";  // or "channels-last"
    // the precision that it was made for: "fp32", "tf32", "bf16"; empty: unknown
    std::string precision;
    std::vector<std::string> outputs;  // the outputs' names; empty: the file's own
    // Of each output the shape of a sample, kVarying where batches differ; empty: as the first batch's.
    std::vector<std::vector<std::int64_t>> output_shapes;
    std::string scores;      // for an output of one channel: "probability", "logit"; empty: unknown
    std::string prompt;      // for tokens: precedes each text
    std::string shape_from;  // the source of a shape that is not in the file ("the rows of 'a.npy'")
    bool random_weights = false;
    bool any_length = false;  // for tokens: shorter rows are also accepted, from LengthGroups::kShortest on

    bool takes_pictures() const { return input_shape.empty() && inputs.empty(); }
    bool takes_tokens() const { return inputs.empty() ? input_dtype == "int32" : !inputs.front().tokens.empty(); }
    bool takes_any_shape() const { return std::ranges::find(input_shape, kVarying) != input_shape.end(); }
    bool takes_arrays() const { return !inputs.empty() && !takes_tokens(); }
    // Facts about the text's tokens.
    std::int64_t token_length() const { return inputs.empty() ? input_shape.back() : inputs.front().shape.front(); }
};

// The metadata beside `model_file`, following links; the defaults if there is none. Blocks: on the disk. Errors:
// ConfigError (Config) names file, line, key and the accepted values; SystemError when the file exists and cannot be
// read.
ModelMetadata read_model_metadata(const std::string& model_file);

// The same from the text of such a file; `name` is its name in errors.
ModelMetadata parse_model_metadata(std::string_view text, const std::string& name);

// The element types of an input array, and the one with this name ("float16"); nothing: unknown.
std::optional<DType> input_dtype_named(std::string_view name);

// The path of a model file's metadata, whether it exists or not.
std::string model_metadata_path(const std::string& model_file);

}  // namespace offramp
