#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/wire/tensor_spec.hpp"

namespace offramp {

inline constexpr std::size_t kMostInputs = 16;  // of a model

// One of a model's inputs, where it takes several or none of the usual ones: a table [[input]] of the metadata.
struct InputMetadata {
    std::string name;    // that of the network's own parameter, and of the array's file
    std::string tokens;  // of a text's tokens: "ids"; "mask", 1 where the text is; "types", zeros. Empty: an array
    std::vector<std::int64_t> shape;  // of one sample; of tokens [length]; empty: one number a sample
    DType dtype = kFloat32;           // what the model takes; of tokens int64
};

// What a model's file does not say about what goes into it: the TOML file beside it, model.toml beside model.pt2, all
// of whose keys may be left out. The defaults are torchvision's.
struct ModelMetadata {
    std::string file;          // where they stand, or would: all of them are defaults then
    std::uint32_t batch = 0;   // the one batch that the model takes; 0: the user's
    std::uint32_t height = 0;  // of the pictures; 0: the user's
    std::uint32_t width = 0;
    std::uint32_t resize_size = 0;  // of a picture's shorter side, before its middle is cut out; 0: all of it is taken
    std::string interpolation = "bilinear";  // or "bicubic"
    std::vector<std::int64_t> input_shape;   // of a sample that is not a picture; empty: pictures
    std::string input_dtype = "float32";     // "bfloat16"; "int32": tokens, [2, length]
    // all of them tokens of one length, or none; empty: the one input that the keys above say
    std::vector<InputMetadata> inputs;
    std::array<float, 3> mean{0.485F, 0.456F, 0.406F};  // in the model's order of colours, of values in [0, 1]
    std::array<float, 3> std{0.229F, 0.224F, 0.225F};
    std::string colour_order = "rgb";          // or "bgr"
    std::string memory_format = "contiguous";  // or "channels-last"
    std::string precision;             // that it was made to compute in: "fp32", "tf32", "bf16"; empty: not said
    std::vector<std::string> outputs;  // their names; empty: those that the file knows
    std::string scores;                // what an output of one channel gives: "probability", "logit"; empty: not said
    std::string prompt;                // of tokens: stands in front of each text
    std::string shape_from;            // where a shape comes from that is not the file's ("the rows of 'a.npy'")
    bool random_weights = false;
    bool any_length = false;  // of tokens: shorter rows are taken as well, of LengthGroups::kShortest and more

    bool takes_pictures() const { return input_shape.empty() && inputs.empty(); }
    bool takes_tokens() const { return inputs.empty() ? input_dtype == "int32" : !inputs.front().tokens.empty(); }
    bool takes_arrays() const { return !inputs.empty() && !takes_tokens(); }
    // Of the text's tokens.
    std::int64_t token_length() const { return inputs.empty() ? input_shape.back() : inputs.front().shape.front(); }
};

// The metadata beside `model_file`, links followed; the defaults when there are none. Blocks: on the disk. Errors:
// ConfigError (Config) names file, line, key and what is accepted; SystemError when the file is there and cannot be
// read.
ModelMetadata read_model_metadata(const std::string& model_file);

// The same from the text of such a file; `name` is what errors call it.
ModelMetadata parse_model_metadata(std::string_view text, const std::string& name);

// The elements that an array of an input may have, and the one with this name ("float16"); nothing: there is none.
std::optional<DType> input_dtype_named(std::string_view name);

// Where the metadata of this model's file stands, whether they are there or not.
std::string model_metadata_path(const std::string& model_file);

}  // namespace offramp
