#include "producer/runner/models/model_metadata.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <system_error>
#include <type_traits>

#include "common/app/settings/parsed_values.hpp"
#include "common/app/settings/run_config.hpp"
#include "common/app/settings/setting_checks.hpp"
#include "common/app/settings/toml.hpp"
#include "common/base/error.hpp"
#include "common/base/files.hpp"
#include "producer/runner/models/length_groups.hpp"

namespace offramp {
namespace {

constexpr std::uint32_t kMostBatch = 65536;
constexpr std::int64_t kMostNumbers = std::int64_t{1} << 31;  // elements in one sample of an input

constexpr std::array<DType, 10> kInputDTypes{kFloat32, kFloat16, kBFloat16, kFloat64, kInt64,
                                             kInt32,   kInt16,   kInt8,     kUInt8,   kBool};

// The parts between commas, without surrounding blanks.
std::vector<std::string> parts_of(std::string_view text) {
    std::vector<std::string> parts;
    for (;;) {
        const std::size_t comma = text.find(',');
        std::string_view part = text.substr(0, comma);
        while (part.starts_with(' ')) part.remove_prefix(1);
        while (part.ends_with(' ')) part.remove_suffix(1);
        parts.emplace_back(part);
        if (comma == std::string_view::npos) return parts;
        text.remove_prefix(comma + 1);
    }
}

template <class Number>
std::optional<Number> number(std::string_view text) {
    Number value{};
    const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
    if (result.ec != std::errc() || result.ptr != text.data() + text.size()) return std::nullopt;
    return value;
}

std::optional<std::uint32_t> whole(std::string_view text, std::uint32_t most) {
    const auto value = number<std::uint32_t>(text);
    return value && *value >= 1 && *value <= most ? value : std::nullopt;
}

// Stores a value's text. Returns false if the value is not accepted.
template <class Metadata>
using ReaderOf = std::function<bool(Metadata& metadata, const std::string& text)>;
using Reader = ReaderOf<ModelMetadata>;

Reader one_of(std::string ModelMetadata::*member, std::vector<std::string> words) {
    return [member, words = std::move(words)](ModelMetadata& metadata, const std::string& text) {
        metadata.*member = text;
        return std::ranges::find(words, text) != words.end();
    };
}

bool read_size(ModelMetadata& metadata, const std::string& text) {
    const std::size_t by = text.find('x');
    const auto height = whole(std::string_view(text).substr(0, by), kLargestImageSize);
    const auto width =
        by == std::string::npos ? height : whole(std::string_view(text).substr(by + 1), kLargestImageSize);
    if (!height || !width) return false;
    metadata.height = *height;
    metadata.width = *width;
    return true;
}

// One number per colour; no standard deviation is zero.
Reader three_numbers(std::array<float, 3> ModelMetadata::*member, float least) {
    return [member, least](ModelMetadata& metadata, const std::string& text) {
        const auto parts = parts_of(text);
        if (parts.size() != 3) return false;
        for (std::size_t i = 0; i < 3; ++i) {
            const auto value = number<float>(parts[i]);
            if (!value || !(*value >= least && *value <= 1e6F)) return false;
            (metadata.*member)[i] = *value;
        }
        return true;
    };
}

template <class Metadata>
struct Key {
    std::string accepted;
    std::vector<TomlType> types;
    ReaderOf<Metadata> read;
};
template <class Metadata>
using Keys = std::map<std::string, Key<Metadata>, std::less<>>;

const Keys<ModelMetadata>& known_keys() {
    static const Keys<ModelMetadata> keys{
        {"any-length",
         {"true, false",
          {TomlType::Boolean},
          [](ModelMetadata& metadata, const std::string& text) {
              metadata.any_length = text == "true";
              return true;
          }}},
        {"batch",
         {"1 to 65536; left out: any",
          {TomlType::Integer},
          [](ModelMetadata& metadata, const std::string& text) {
              const auto batch = whole(text, kMostBatch);
              metadata.batch = batch.value_or(0);
              return batch.has_value();
          }}},
        {"image-size", {"a side of 1 to 8192, or \"HEIGHTxWIDTH\"", {TomlType::Integer, TomlType::String}, read_size}},
        {"resize-size",
         {"the length of a picture's shorter side, 32 to 8192, before image-size is cut from its middle; left out: all "
          "of it is squeezed into image-size",
          {TomlType::Integer},
          [](ModelMetadata& metadata, const std::string& text) {
              metadata.resize_size = whole(text, kLargestImageSize).value_or(0);
              return metadata.resize_size >= kSmallestImageSize;
          }}},
        {"interpolation",
         {"bilinear, bicubic", {TomlType::String}, one_of(&ModelMetadata::interpolation, {"bilinear", "bicubic"})}},
        {"input-shape",
         {"the shape of one sample, as \"128x256\", or \"1x?x?\" if samples differ; left out: a picture",
          {TomlType::String},
          [](ModelMetadata& metadata, const std::string& text) {
              const auto shape = parse_sample_shape(text, kVarying);
              metadata.input_shape = shape.value_or(std::vector<std::int64_t>{});
              return shape.has_value();
          }}},
        {"input-dtype",
         {"float32, bfloat16, int32",
          {TomlType::String},
          one_of(&ModelMetadata::input_dtype, {"float32", "bfloat16", "int32"})}},
        {"mean",
         {"three numbers, as \"0.485, 0.456, 0.406\"", {TomlType::String}, three_numbers(&ModelMetadata::mean, -1e6F)}},
        {"std",
         {"three numbers above 0, as \"0.229, 0.224, 0.225\"",
          {TomlType::String},
          three_numbers(&ModelMetadata::std, 1e-6F)}},
        {"colour-order", {"rgb, bgr", {TomlType::String}, one_of(&ModelMetadata::colour_order, {"rgb", "bgr"})}},
        {"memory-format",
         {"contiguous, channels-last",
          {TomlType::String},
          one_of(&ModelMetadata::memory_format, {"contiguous", "channels-last"})}},
        {"outputs",
         {"names, separated by commas",
          {TomlType::String},
          [](ModelMetadata& metadata, const std::string& text) {
              metadata.outputs = parts_of(text);
              return std::ranges::find(metadata.outputs, "") == metadata.outputs.end();
          }}},
        {"output-shapes",
         {"the shape of one sample of each output, as \"4, ?x6\", or \"4, ()\" with one number per sample",
          {TomlType::String},
          [](ModelMetadata& metadata, const std::string& text) {
              for (const std::string& part : parts_of(text)) {
                  const auto shape = part == "()" ? std::vector<std::int64_t>{} : parse_sample_shape(part, kVarying);
                  if (!shape) return false;
                  metadata.output_shapes.push_back(*shape);
              }
              return true;
          }}},
        {"precision",
         {"fp32, tf32, bf16", {TomlType::String}, one_of(&ModelMetadata::precision, {"fp32", "tf32", "bf16"})}},
        {"prompt",
         {"a text of one character or more",
          {TomlType::String},
          [](ModelMetadata& metadata, const std::string& text) {
              metadata.prompt = text;
              return !text.empty() && text.find('\0') == std::string::npos;
          }}},
        {"scores",
         {"probability, logit", {TomlType::String}, one_of(&ModelMetadata::scores, {"probability", "logit"})}},
        {"random-weights", {"true, false", {TomlType::Boolean}, [](ModelMetadata& metadata, const std::string& text) {
                                metadata.random_weights = text == "true";
                                return true;
                            }}}};
    return keys;
}

std::string dtype_names() {
    std::string names;
    for (const DType dtype : kInputDTypes) names += (names.empty() ? "" : ", ") + to_string(dtype);
    return names;
}

// It is also a file name.
bool read_input_name(InputMetadata& input, const std::string& text) {
    const auto plain = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
               c == '.';
    };
    input.name = text;
    return !text.empty() && text.size() <= kMaxTensorName && !text.starts_with('.') && std::ranges::all_of(text, plain);
}

bool read_input_shape(InputMetadata& input, const std::string& text) {
    const auto shapes = OutputShapes::parse(text);
    if (!shapes || shapes->outputs.size() != 1) return false;
    input.shape = shapes->outputs.front();
    std::int64_t numbers = 1;
    return std::ranges::all_of(input.shape,
                               [&numbers](std::int64_t side) { return (numbers *= side) <= kMostNumbers; });
}

// Keys of a table [[input]].
const Keys<InputMetadata>& known_input_keys() {
    static const Keys<InputMetadata> keys{
        {"name", {"1 to 63 letters, digits, '_', '-' and '.', no '.' in front", {TomlType::String}, read_input_name}},
        {"tokens",
         {"ids, mask, types; left out: an array",
          {TomlType::String},
          [](InputMetadata& input, const std::string& text) {
              input.tokens = text;
              return text == "ids" || text == "mask" || text == "types";
          }}},
        {"shape",
         {"the shape of one sample, as 128 or \"3x16\", at most 2147483648 numbers; left out: one number a sample",
          {TomlType::String, TomlType::Integer},
          read_input_shape}},
        {"dtype", {dtype_names(), {TomlType::String}, [](InputMetadata& input, const std::string& text) {
                       const auto dtype = input_dtype_named(text);
                       input.dtype = dtype.value_or(kFloat32);
                       return dtype.has_value();
                   }}}};
    return keys;
}

template <class Metadata>
[[noreturn]] void refuse_key(const std::string& place, const std::string& key, const Keys<Metadata>& keys) {
    std::vector<std::string> known;
    std::string list;
    for (const auto& [name, unused] : keys) {
        known.push_back(name);
        list += (list.empty() ? "" : ", ") + name;
    }
    const auto near = nearest_word(key, known);
    const bool of_the_model = std::is_same_v<Metadata, InputMetadata> && known_keys().contains(key);
    throw ConfigError(
        place + "'" + key + "' is not a key of " + (std::is_same_v<Metadata, InputMetadata> ? "an input" : "a model"),
        of_the_model ? "Write keys of the whole model above the first [[input]]"
                     : (near ? "Did you mean " + *near + "? " : "") + "Known: " + list,
        ErrorKind::Config);
}

template <class Metadata>
void read_entry(const TomlEntry& entry, const std::string& file, const Keys<Metadata>& keys, Metadata& metadata) {
    const std::string place = file + ":" + std::to_string(entry.line) + ": ";
    const auto found = keys.find(entry.key);
    if (found == keys.end()) refuse_key(place, entry.key, keys);
    const Key<Metadata>& key = found->second;
    if (std::ranges::find(key.types, entry.type) == key.types.end() || !key.read(metadata, entry.text))
        throw ConfigError(
            place + entry.key + " is " + (entry.type == TomlType::String ? quote_toml(entry.text) : entry.text),
            "Accepted: " + key.accepted, ErrorKind::Config);
}

[[noreturn]] void refuse_table(const std::string& file, const TomlTable& table, const std::string& problem,
                               const std::string& accepted) {
    throw ConfigError(file + ":" + std::to_string(table.line) + ": " + problem, accepted, ErrorKind::Config);
}

// Checks that need a whole table.
void check_input(const InputMetadata& input, const std::string& file, const TomlTable& table) {
    if (input.name.empty())
        refuse_table(file, table, "an [[input]] has no name",
                     "Give it the name of the network's parameter: name = \"input_ids\"");
    if (input.tokens.empty()) return;
    if (input.shape.size() != 1)
        refuse_table(file, table,
                     "the input '" + input.name + "' has tokens, but its shape is " +
                         (input.shape.empty() ? "not given" : "of another form"),
                     "Accepted with tokens: shape = LENGTH, the tokens of a text");
    const bool fits = input.dtype == kInt64 || input.dtype == kInt32 ||
                      (input.tokens == "mask" && (input.dtype == kFloat32 || input.dtype == kBool));
    if (!fits)
        refuse_table(file, table,
                     "the input '" + input.name + "' has tokens, but its dtype is " + to_string(input.dtype),
                     "Accepted with tokens: int64, int32; of a mask also float32, bool");
}

InputMetadata read_input(const TomlTable& table, const std::string& file) {
    InputMetadata input;
    bool has_dtype = false;
    for (const TomlEntry& entry : table.entries) {
        read_entry(entry, file, known_input_keys(), input);
        has_dtype = has_dtype || entry.key == "dtype";
    }
    if (!has_dtype && !input.tokens.empty()) input.dtype = kInt64;
    check_input(input, file, table);
    return input;
}

// Checks that need all tables.
void check_together(const ModelMetadata& metadata, const InputMetadata& input, const TomlTable& table) {
    for (const InputMetadata& other : metadata.inputs)
        if (other.name == input.name)
            refuse_table(metadata.file, table, "a second input is called '" + input.name + "'",
                         "Give each its own name");
    if (metadata.inputs.size() == kMostInputs)
        refuse_table(metadata.file, table, "there are more than 16 inputs", "Use a model with 1 to 16 inputs");
    if (metadata.inputs.empty()) return;
    const InputMetadata& first = metadata.inputs.front();
    if (first.tokens.empty() != input.tokens.empty())
        refuse_table(
            metadata.file, table,
            "of the inputs '" + first.name + "' and '" + input.name + "', one has tokens and the other one is an array",
            "All of a model's inputs are tokens of a text, or all are arrays");
    if (!input.tokens.empty() && first.shape != input.shape)
        refuse_table(metadata.file, table,
                     "the input '" + input.name + "' has " + std::to_string(input.shape.front()) + " tokens, and '" +
                         first.name + "' has " + std::to_string(first.shape.front()),
                     "All belong to the same text: give each the same shape");
}

void read_inputs(const TomlDocument& document, ModelMetadata& metadata) {
    for (const TomlTable& table : document.tables) {
        InputMetadata input = read_input(table, metadata.file);
        check_together(metadata, input, table);
        metadata.inputs.push_back(std::move(input));
    }
    if (metadata.inputs.empty()) return;
    constexpr std::array<std::string_view, 9> kOfOneInput{"input-shape", "input-dtype",   "image-size",
                                                          "resize-size", "interpolation", "mean",
                                                          "std",         "colour-order",  "memory-format"};
    for (const TomlEntry& entry : document.top)
        if (std::ranges::find(kOfOneInput, entry.key) != kOfOneInput.end())
            throw ConfigError(
                metadata.file + ":" + std::to_string(entry.line) + ": " + entry.key +
                    " does not go with [[input]] in line " + std::to_string(document.tables.front().line),
                "Tables [[input]] describe the whole input; pictures beside other inputs are not supported",
                ErrorKind::Config);
}

// Consumers derive the part of a picture from the settings alone, which have one number for both sides.
void check_middle(const ModelMetadata& metadata, std::size_t line) {
    if (metadata.resize_size == 0 || metadata.height == 0) return;  // or a run sets the size
    if (metadata.height == metadata.width && metadata.height >= kSmallestImageSize &&
        metadata.height <= metadata.resize_size)
        return;
    throw ConfigError(metadata.file + ":" + std::to_string(line) + ": resize-size is " +
                          std::to_string(metadata.resize_size) + ", and image-size " + std::to_string(metadata.height) +
                          "x" + std::to_string(metadata.width) + " cannot be cut from its middle",
                      "Accepted with it: a square image-size of " + std::to_string(kSmallestImageSize) + " to " +
                          std::to_string(metadata.resize_size),
                      ErrorKind::Config);
}

}  // namespace

std::optional<DType> input_dtype_named(std::string_view name) {
    const auto found = std::ranges::find(kInputDTypes, name, [](DType dtype) { return to_string(dtype); });
    return found == kInputDTypes.end() ? std::nullopt : std::optional(*found);
}

ModelMetadata parse_model_metadata(std::string_view text, const std::string& name) {
    ModelMetadata metadata{.file = name};
    const TomlDocument document = read_toml_of_tables(text, name, "input");
    std::size_t dtype_line = 0;
    std::size_t resize_line = 0;
    std::size_t length_line = 0;
    std::size_t prompt_line = 0;
    std::size_t outputs_line = 0;
    for (const TomlEntry& entry : document.top) {
        if (entry.key == "input-dtype") dtype_line = entry.line;
        if (entry.key == "resize-size") resize_line = entry.line;
        if (entry.key == "any-length") length_line = entry.line;
        if (entry.key == "prompt") prompt_line = entry.line;
        if (entry.key == "output-shapes") outputs_line = entry.line;
        read_entry(entry, name, known_keys(), metadata);
    }
    read_inputs(document, metadata);
    check_middle(metadata, resize_line);
    if (metadata.inputs.empty() && metadata.takes_tokens() &&
        (metadata.input_shape.size() != 2 || metadata.input_shape.front() != 2))
        throw ConfigError(
            name + ":" + std::to_string(dtype_line) + ": input-dtype is \"int32\", tokens, and input-shape is " +
                (metadata.takes_pictures() ? "not given" : "of another form"),
            "Accepted with it: input-shape = \"2xLENGTH\", ids and mask of LENGTH tokens", ErrorKind::Config);
    if (metadata.takes_any_shape() && metadata.takes_tokens())
        throw ConfigError(name + ":" + std::to_string(dtype_line) +
                              ": input-dtype is \"int32\", tokens, whose "
                              "input-shape has a '?'",
                          "Accepted with it: input-shape = \"2xLENGTH\", ids and mask of LENGTH tokens",
                          ErrorKind::Config);
    if (metadata.any_length && (!metadata.takes_tokens() || metadata.token_length() < LengthGroups::kShortest))
        throw ConfigError(name + ":" + std::to_string(length_line) + ": any-length is true, and the model takes " +
                              (metadata.takes_tokens() ? "fewer than 4 tokens" : "no tokens"),
                          "It is for models of texts: leave it out", ErrorKind::Config);
    if (!metadata.output_shapes.empty() && metadata.takes_tokens())
        throw ConfigError(
            name + ":" + std::to_string(outputs_line) + ": output-shapes is given, and the model takes tokens",
            "Leave it out: --output-tensor cuts an output to each text's own tokens", ErrorKind::Config);
    if (!metadata.prompt.empty() && !metadata.takes_tokens())
        throw ConfigError(name + ":" + std::to_string(prompt_line) + ": prompt is given, and the model takes no tokens",
                          "It is for models of texts: leave it out", ErrorKind::Config);
    return metadata;
}

ModelMetadata read_model_metadata(const std::string& model_file) {
    const std::string path = model_metadata_path(model_file);
    std::error_code failure;
    if (!std::filesystem::exists(std::filesystem::symlink_status(path, failure))) return {.file = path};
    // Caches of downloaded models are folders of links.
    const std::filesystem::path target = std::filesystem::canonical(path, failure);
    if (failure) throw SystemError("opening " + path, failure.value());
    const MappedFile file(target.string());
    return parse_model_metadata({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()}, path);
}

std::string model_metadata_path(const std::string& model_file) {
    return std::filesystem::path(model_file).replace_extension(".toml").string();
}

}  // namespace offramp
