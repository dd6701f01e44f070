#include "producer/models/model_notes.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <system_error>

#include "common/base/error.hpp"
#include "common/base/mapped_file.hpp"
#include "common/config/flat_toml.hpp"
#include "common/config/nearest_word.hpp"
#include "common/config/output_shapes.hpp"

namespace offramp {
namespace {

constexpr std::uint32_t kMostBatch = 65536;
constexpr std::uint32_t kMostSide = 8192;

// The parts between commas, without blanks around them.
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

// Puts a value's text where it belongs. False: it is none of those that are accepted.
using Reader = std::function<bool(ModelNotes& notes, const std::string& text)>;

Reader one_of(std::string ModelNotes::*member, std::vector<std::string> words) {
    return [member, words = std::move(words)](ModelNotes& notes, const std::string& text) {
        notes.*member = text;
        return std::ranges::find(words, text) != words.end();
    };
}

bool read_size(ModelNotes& notes, const std::string& text) {
    const std::size_t by = text.find('x');
    const auto height = whole(std::string_view(text).substr(0, by), kMostSide);
    const auto width = by == std::string::npos ? height : whole(std::string_view(text).substr(by + 1), kMostSide);
    if (!height || !width) return false;
    notes.height = *height;
    notes.width = *width;
    return true;
}

// One number a colour; no standard deviation is zero.
Reader three_numbers(std::array<float, 3> ModelNotes::*member, float least) {
    return [member, least](ModelNotes& notes, const std::string& text) {
        const auto parts = parts_of(text);
        if (parts.size() != 3) return false;
        for (std::size_t i = 0; i < 3; ++i) {
            const auto value = number<float>(parts[i]);
            if (!value || !(*value >= least && *value <= 1e6F)) return false;
            (notes.*member)[i] = *value;
        }
        return true;
    };
}

struct Key {
    std::string accepted;
    std::vector<TomlType> types;
    Reader read;
};

const std::map<std::string, Key, std::less<>>& known_keys() {
    static const std::map<std::string, Key, std::less<>> keys{
        {"batch",
         {"1 to 65536; left out: any",
          {TomlType::Integer},
          [](ModelNotes& notes, const std::string& text) {
              const auto batch = whole(text, kMostBatch);
              notes.batch = batch.value_or(0);
              return batch.has_value();
          }}},
        {"image-size", {"a side of 1 to 8192, or \"HEIGHTxWIDTH\"", {TomlType::Integer, TomlType::String}, read_size}},
        {"input-shape",
         {"the shape of one sample, as \"128x256\"; left out: a picture",
          {TomlType::String},
          [](ModelNotes& notes, const std::string& text) {
              const auto shapes = OutputShapes::parse(text);
              if (!shapes || shapes->outputs.size() != 1) return false;
              notes.input_shape = shapes->outputs.front();
              return true;
          }}},
        {"input-dtype", {"float32, bfloat16, int32", {TomlType::String}, one_of(&ModelNotes::input_dtype, {"float32", "bfloat16", "int32"})}},
        {"mean", {"three numbers, as \"0.485, 0.456, 0.406\"", {TomlType::String}, three_numbers(&ModelNotes::mean, -1e6F)}},
        {"std", {"three numbers above 0, as \"0.229, 0.224, 0.225\"", {TomlType::String}, three_numbers(&ModelNotes::std, 1e-6F)}},
        {"colour-order", {"rgb, bgr", {TomlType::String}, one_of(&ModelNotes::colour_order, {"rgb", "bgr"})}},
        {"memory-format",
         {"contiguous, channels-last", {TomlType::String}, one_of(&ModelNotes::memory_format, {"contiguous", "channels-last"})}},
        {"outputs",
         {"names with commas between",
          {TomlType::String},
          [](ModelNotes& notes, const std::string& text) {
              notes.outputs = parts_of(text);
              return std::ranges::find(notes.outputs, "") == notes.outputs.end();
          }}},
        {"precision", {"fp32, tf32, bf16", {TomlType::String}, one_of(&ModelNotes::precision, {"fp32", "tf32", "bf16"})}},
        {"random-weights",
         {"true, false",
          {TomlType::Boolean},
          [](ModelNotes& notes, const std::string& text) {
              notes.random_weights = text == "true";
              return true;
          }}}};
    return keys;
}

[[noreturn]] void refuse_key(const std::string& place, const std::string& key) {
    std::vector<std::string> known;
    std::string list;
    for (const auto& [name, unused] : known_keys()) {
        known.push_back(name);
        list += (list.empty() ? "" : ", ") + name;
    }
    const auto near = nearest_word(key, known);
    throw ConfigError(place + "'" + key + "' says nothing about a model",
                      (near ? "Did you mean " + *near + "? " : "") + "Known: " + list, ExitCode::Config);
}

}  // namespace

ModelNotes parse_model_notes(std::string_view text, const std::string& name) {
    ModelNotes notes{.file = name};
    std::size_t dtype_line = 0;
    for (const TomlEntry& entry : read_flat_toml(text, name)) {
        const std::string place = name + ":" + std::to_string(entry.line) + ": ";
        const auto found = known_keys().find(entry.key);
        if (found == known_keys().end()) refuse_key(place, entry.key);
        const Key& key = found->second;
        if (entry.key == "input-dtype") dtype_line = entry.line;
        if (std::ranges::find(key.types, entry.type) == key.types.end() || !key.read(notes, entry.text))
            throw ConfigError(place + entry.key + " is " + (entry.type == TomlType::String ? quote_toml(entry.text) : entry.text),
                              "Accepted: " + key.accepted, ExitCode::Config);
    }
    if (notes.takes_tokens() && (notes.input_shape.size() != 2 || notes.input_shape.front() != 2))
        throw ConfigError(name + ":" + std::to_string(dtype_line) + ": input-dtype is \"int32\", tokens, and input-shape is " +
                              (notes.takes_pictures() ? "not given" : "of another form"),
                          "Accepted with it: input-shape = \"2xLENGTH\", ids and mask of LENGTH tokens", ExitCode::Config);
    return notes;
}

ModelNotes read_model_notes(const std::string& model_file) {
    const std::string path = model_notes_path(model_file);
    std::error_code failure;
    if (!std::filesystem::exists(std::filesystem::symlink_status(path, failure))) return {};
    // Caches of downloaded models are folders of links.
    const std::filesystem::path target = std::filesystem::canonical(path, failure);
    if (failure) throw SystemError("opening " + path, failure.value());
    const MappedFile file(target.string());
    return parse_model_notes({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()}, path);
}

std::string model_notes_path(const std::string& model_file) {
    return std::filesystem::path(model_file).replace_extension(".toml").string();
}

}  // namespace offramp
