#include "producer/runner/models/model_choice.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "common/app/settings/setting_checks.hpp"
#include "common/base/error.hpp"
#include "producer/runner/models/weights_file.hpp"

namespace offramp {
namespace {

constexpr std::string_view kExtension = ".safetensors";
constexpr std::array<std::string_view, 2> kModelFiles{".pt2", ".pt"};
constexpr const char* kNote = "architecture";

// For files without such a note, like torch's state dicts.
struct SignatureTensor {
    const char* model;
    const char* tensor;
};
constexpr std::array<SignatureTensor, 3> kSignatureTensors{{{"deeplabv3-resnet50", "classifier.0.convs.0.0.weight"},
                                                            {"encoder", "layers.0.self_attn.in_proj_weight"},
                                                            {"cutout", "encoder.0.weight"}}};

// Checks that --model can name an architecture; `copy` has no weights.
bool can_be_architecture(std::string_view name) {
    const auto plain = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '-'; };
    return !name.empty() && name != "copy" && std::ranges::all_of(name, plain);
}

std::string model_of(const SafetensorsFile& file) {
    if (const auto note = file.metadata().find(kNote); note != file.metadata().end()) {
        if (can_be_architecture(note->second)) return note->second;
        throw ConfigError("--model '" + file.path() + "' names the architecture '" + note->second +
                              "', which is not a model with weights",
                          "Name the model (--list) and give the file as its --weights", ErrorKind::BadInput);
    }
    const std::string wrapper = wrapper_of(file.tensors());
    for (const SignatureTensor& signature : kSignatureTensors)
        if (file.find(wrapper + signature.tensor) != nullptr) return signature.model;
    throw ConfigError(
        "--model '" + file.path() + "' does not state the model of its weights, and its tensors match no known model",
        "Name the model and give the file as its --weights, or write it with metadata={\"architecture\": NAME}",
        ErrorKind::BadInput);
}

void require_file(const std::string& model, const std::string& weights, const char* holds, const char* instead) {
    std::error_code failure;
    if (!weights.empty())
        throw ConfigError("--model '" + model + "' holds " + holds + ", and --weights '" + weights + "' was given too",
                          instead);
    if (!std::filesystem::exists(model, failure))
        throw ConfigError("--model '" + model + "' does not exist",
                          "Give a .pt2, .pt or .safetensors file, or a model's name (--list)", ErrorKind::NoInput);
}

}  // namespace

bool is_model_file(std::string_view model) {
    return std::ranges::any_of(kModelFiles, [model](std::string_view extension) { return model.ends_with(extension); });
}

ModelChoice choose_model(const std::string& model, const std::string& weights, const std::string& shipped) {
    std::error_code failure;
    if (model.ends_with(kExtension)) {
        require_file(model, weights, "weights", "Give the model's name, or leave --weights out");
        return {.name = model_of(open_weights(model)), .weights = model};
    }
    if (is_model_file(model)) {
        require_file(model, weights, "a whole model",
                     "Leave --weights out; ./launch/offramp export takes other weights");
        return {.name = model, .weights = {}};
    }
    if (!weights.empty()) return {.name = model, .weights = weights};
    const std::string own = shipped + "/" + model + std::string(kExtension);
    return {.name = model, .weights = std::filesystem::exists(own, failure) ? own : ""};
}

ConfigError no_weights(const std::string& model) {
    return ConfigError("the model '" + model + "' is shipped without weights, and none were given",
                       "Give them with --weights FILE.safetensors, or run a model that has them: `--model cutout`, "
                       "which is shipped with its own, or a .pt2 that ./launch/offramp export made of a network and "
                       "its weights. For measuring: --random-weights, with meaningless outputs");
}

std::vector<std::string> built_in_model_names() {
    std::vector<std::string> names = model_plugin_names();
    names.emplace_back("copy");
    std::ranges::sort(names);
    return names;
}

void require_model_name(const std::string& model) {
    if (is_model_file(model)) return;
    const std::vector<std::string> known = built_in_model_names();
    if (std::ranges::find(known, model) != known.end()) return;
    const auto nearest = nearest_word(model, known);
    std::string list;
    for (const std::string& name : known) list += (list.empty() ? "" : ", ") + name;
    throw ConfigError("--model '" + model + "' is unknown", (nearest ? "Did you mean " + *nearest + "? " : "") +
                                                                "Known: " + list +
                                                                "; or the path of a .pt2, .pt or .safetensors file");
}

}  // namespace offramp
