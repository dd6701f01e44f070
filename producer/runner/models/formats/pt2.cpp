#include <torch/csrc/inductor/aoti_package/model_package_loader.h>
#include <torch/version.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <unordered_map>

#include "common/base/error.hpp"
#include "common/json/json_text.hpp"
#include "producer/runner/models/file_model.hpp"
#include "producer/runner/models/network_file.hpp"

#ifdef OFFRAMP_TORCH_HAS_CUDA
#include <c10/cuda/CUDAFunctions.h>
#endif

// A package that AOTInductor compiled: machine code for one device, which LibTorch unpacks and opens.
namespace offramp {
namespace {

using Loader = torch::inductor::AOTIModelPackageLoader;
using Metadata = std::unordered_map<std::string, std::string>;

constexpr const char* kModel = "model";
constexpr const char* kExportAnew = "Export it on this machine: ./launch/offramp export";

std::string first_line_without_stop(const std::string& text) {
    std::string line = first_line(text);
    while (line.ends_with('.')) line.pop_back();
    return line;
}

// Compiled code writes the reason for rejecting an input to std::cerr; its exception has no details.
class CapturedErrors {
  public:
    CapturedErrors() : previous_(std::cerr.rdbuf(text_.rdbuf())) {}
    ~CapturedErrors() { std::cerr.rdbuf(previous_); }
    CapturedErrors(const CapturedErrors&) = delete;
    CapturedErrors& operator=(const CapturedErrors&) = delete;
    std::string text() const {
        const std::string text = text_.str();
        constexpr std::string_view kPrefix = "Error: ";
        return text.starts_with(kPrefix) ? text.substr(kPrefix.size()) : text;
    }

  private:
    std::ostringstream text_;
    std::streambuf* previous_;
};

// The number after `words`; nothing if the text has none.
std::optional<long long> number_behind(const std::string& text, std::string_view words) {
    const std::size_t at = text.find(words);
    if (at == std::string::npos) return std::nullopt;
    long long value = 0;
    const char* const begin = text.data() + at + words.size();
    if (std::from_chars(begin, text.data() + text.size(), value).ec != std::errc()) return std::nullopt;
    return value;
}

// The expected size: "4", "2 or more"; empty if the text does not contain it.
std::string size_wanted(const std::string& refusal) {
    if (const auto exact = number_behind(refusal, "expected: ")) return std::to_string(*exact);
    if (const auto least = number_behind(refusal, "expected it to be >= ")) return std::to_string(*least) + " or more";
    if (const auto most = number_behind(refusal, "expected to be <= ")) return std::to_string(*most) + " or less";
    return "";
}

// The fix for an input that the compiled code rejected in its own words, such as "input_handles[0]: unmatched dim value
// at 0, expected: 4, but got: 2".
std::string fix_for(const std::string& refusal, const ModelMetadata& metadata) {
    const auto input = number_behind(refusal, "input_handles[");
    const bool of_the_batch =
        refusal.find("dim value") != std::string::npos && refusal.find(" at 0,") != std::string::npos;
    if (!of_the_batch && input && *input >= 0 && static_cast<std::size_t>(*input) < metadata.inputs.size())
        return "Correct in " + metadata.file + " the shape and dtype of the [[input]] '" +
               metadata.inputs[static_cast<std::size_t>(*input)].name +
               "'; the input is contiguous, and the model must accept that";
    if (refusal.find("unmatched dtype") != std::string::npos)
        return "Write its type into the TOML file beside it: input-dtype = \"bfloat16\" or \"int32\", and any other "
               "type in a table [[input]]";
    if (refusal.find("stride") != std::string::npos)
        return "Give the other --memory-format (contiguous, channels-last), or write it into the TOML file beside the "
               "model";
    const auto dimension = number_behind(refusal, "at ");
    const std::string wanted = size_wanted(refusal);
    if (!dimension || wanted.empty()) return "See what the model was exported for";
    if (*dimension == 1)
        return "Pictures have 3 channels; a model of other inputs needs input-shape in the TOML file beside it";
    return "Use --image-size " + wanted +
           ", or write image-size into the TOML file beside the model, or export it for this one";
}

std::string described(const std::vector<at::Tensor>& tensors) {
    std::string text;
    for (const at::Tensor& tensor : tensors) text += (text.empty() ? "" : ", ") + describe(tensor);
    return text;
}

// Names of the leaves of a tree of outputs, in the format of torch.utils._pytree.
void name_leaves(const nlohmann::json& tree, const std::string& name, std::vector<std::string>& names) {
    const nlohmann::json& children = tree.at("children_spec");
    if (tree.at("type").is_null()) {
        names.push_back(name.empty() ? "output" : name);
        return;
    }
    nlohmann::json keys;
    if (tree.at("context").is_string()) keys = parse_json_or_discard(tree.at("context").get<std::string>());
    for (std::size_t i = 0; i < children.size(); ++i) {
        const bool named = keys.is_array() && keys.size() == children.size() && keys[i].is_string();
        const std::string part = named ? keys[i].get<std::string>() : std::to_string(i);
        name_leaves(children[i], name.empty() ? part : name + "." + part, names);
    }
}

// The name of an input, from its place in (arguments, keyword arguments): "1.input_ids" is input_ids, "0.0" has none.
std::string input_name(std::string place) {
    while (!place.empty() && std::isdigit(static_cast<unsigned char>(place.front()))) {
        const std::size_t point = place.find('.');
        place = point == std::string::npos ? "" : place.substr(point + 1);
    }
    return place;
}

std::vector<std::string> leaves_of(const std::vector<std::string>& call_spec, std::size_t which) {
    std::vector<std::string> names;
    try {
        if (which < call_spec.size()) name_leaves(parse_json(call_spec[which]).at(1), "", names);
    } catch (const nlohmann::json::exception&) {
        names.clear();  // a version with another format
    }
    return names;
}

// The package's metadata, read before loading the package; nothing if this LibTorch cannot read it.
template <class Package = Loader>
Metadata metadata_of(const std::string& file) {
    if constexpr (requires { Package::load_metadata_from_package(file, kModel); })
        return Package::load_metadata_from_package(file, kModel);
    else
        return {};
}

std::string value_of(const Metadata& metadata, const std::string& key) {
    const auto found = metadata.find(key);
    return found == metadata.end() ? "" : found->second;
}

bool is_zip(const std::string& file) {
    std::array<char, 4> magic{};
    std::ifstream stream(file, std::ios::binary);
    stream.read(magic.data(), magic.size());
    return stream && std::string_view(magic.data(), magic.size()) == "PK\x03\x04";
}

[[noreturn]] void refuse_device(const std::string& file, const std::string& made_for, const std::string& here,
                                const std::string& fix) {
    throw ConfigError("--model '" + file + "' was compiled for " + made_for + ", and this run is on " + here, fix,
                      ErrorKind::DeviceUnsupported);
}

// Code for another processor would end in an illegal instruction.
void check_processor(const std::string& file, const Metadata& metadata) {
#ifdef __x86_64__
    const std::string machine = value_of(metadata, "AOTI_MACHINE");
    if (!machine.empty() && machine != "x86_64")
        refuse_device(file, "a processor of type " + machine, "x86_64", kExportAnew);
    const std::string isa = value_of(metadata, "AOTI_CPU_ISA");
    const auto wants = [&isa](std::string_view name) { return isa.find(name) != std::string::npos; };
    const bool fits = (!wants("AVX512") || (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw"))) &&
                      (!wants("AVX512_VNNI") || __builtin_cpu_supports("avx512vnni")) &&
                      (!wants("AVX2") || __builtin_cpu_supports("avx2"));
    if (!fits) refuse_device(file, "a processor with " + isa, "one without", kExportAnew);
#else
    static_cast<void>(file), static_cast<void>(metadata);
#endif
}

// Device code runs on its own architecture and on later ones of the same generation.
void check_architecture(const std::string& file, const std::string& made_for, const Execution& execution) {
#ifdef OFFRAMP_TORCH_HAS_CUDA
    int major = 0;
    int minor = 0;
    if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, execution.device().index()) != cudaSuccess ||
        cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, execution.device().index()) != cudaSuccess)
        return;
    const auto made = number_behind("=" + made_for, "=");
    if (made && (*made / 10 != major || *made % 10 > minor))
        refuse_device(file,
                      "a GPU of compute capability " + std::to_string(*made / 10) + "." + std::to_string(*made % 10),
                      "one of " + std::to_string(major) + "." + std::to_string(minor), kExportAnew);
#else
    static_cast<void>(file), static_cast<void>(made_for), static_cast<void>(execution);
#endif
}

void check_made_for_this(const std::string& file, const Metadata& metadata, const Execution& execution) {
    const std::string device = value_of(metadata, "AOTI_DEVICE_KEY");
    const std::string here = execution.on_cuda() ? "cuda" : "cpu";
    if (!device.empty() && device != here)
        refuse_device(file, device, here,
                      device == "cuda" || device == "cpu"
                          ? std::string(kExportAnew) + " --device " + here + ", or run it with --device " + device
                          : kExportAnew);
    if (device == "cpu") check_processor(file, metadata);
    if (device == "cuda") check_architecture(file, value_of(metadata, "AOTI_COMPUTE_CAPABILITY"), execution);
}

// LibTorch unpacks a package below /tmp and removes it at its normal end, not when it is killed. On a CPU these files
// are not needed once the code is mapped; on a GPU kernels are read at their first launch.
void remove_unpacked() {
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
        const std::string folder = unpacked_folder(line);
        std::error_code ignored;
        if (!folder.empty()) std::filesystem::remove_all(folder, ignored);
    }
}

class CompiledNetwork final : public FileNetwork {
  public:
    explicit CompiledNetwork(const Execution& execution)
        : file_(execution.options().name), metadata_(execution.options().metadata) {
        // Without it, compiled code reads past the end of an input that is too small. Read once per process.
        ::setenv("AOTI_RUNTIME_CHECK_INPUTS", "1", 1);
        on_cuda_ = execution.on_cuda();
        by_length_ = execution.options().group_rows > 0;
        package_ = load(execution);
        const std::vector<std::string> spec = package_->get_call_spec();
        inputs_ = leaves_of(spec, 0);
        std::ranges::transform(inputs_, inputs_.begin(), input_name);
        names_ = leaves_of(spec, 1);
    }

    std::string description() const override {
        return "compiled by AOTInductor for " + value_of(package_->get_metadata(), "AOTI_DEVICE_KEY");
    }

    std::optional<NetworkInputs> inputs() const override {
        return inputs_.empty() ? std::nullopt
                               : std::optional(NetworkInputs{.names = inputs_, .needed = inputs_.size()});
    }

    std::vector<Output> run(std::span<const at::Tensor> inputs) override {
        const std::vector<at::Tensor> given(inputs.begin(), inputs.end());
        std::vector<at::Tensor> tensors = run_package(given);
        std::vector<Output> outputs;
        outputs.reserve(tensors.size());
        const bool named = names_.size() == tensors.size();
        for (std::size_t i = 0; i < tensors.size(); ++i)
            outputs.push_back({named                 ? names_[i]
                               : tensors.size() == 1 ? "output"
                                                     : std::to_string(i),
                               std::move(tensors[i])});
        return outputs;
    }

  private:
    std::unique_ptr<Loader> load(const Execution& execution) const {
        if (!is_zip(file_))
            throw ConfigError(
                "--model '" + file_ + "' is not a model: a .pt2 file is a zip archive, but this file is not",
                "Make one with ./launch/offramp export, or torch._inductor.aoti_compile_and_package",
                ErrorKind::BadInput);
        Metadata metadata;
        try {
            metadata = metadata_of(file_);
            check_made_for_this(file_, metadata, execution);
            // One runner with one user: no locks, and no waiting for the previous batch.
            return std::make_unique<Loader>(file_, kModel, true, 1,
                                            execution.on_cuda() ? execution.device().index() : c10::DeviceIndex{-1});
        } catch (const Error&) {
            throw;
        } catch (const c10::Error& error) {
            refuse(execution, error.what_without_backtrace(), metadata);
        } catch (const std::exception& error) {
            refuse(execution, error.what(), metadata);
        }
    }

    [[noreturn]] void refuse(const Execution& execution, const std::string& whole_text,
                             const Metadata& metadata) const {
        execution.require_device(whole_text);
        const std::string reason = first_line_without_stop(whole_text);
        const std::string maker = value_of(metadata, "torch");
        if (metadata.empty())
            throw ConfigError("--model '" + file_ + "' holds no compiled model: " + reason,
                              "A TorchScript file ends in .pt. Compile what torch.export.save wrote: "
                              "./launch/offramp export " +
                                  file_ + " --output compiled.pt2",
                              ErrorKind::BadInput);
        throw ConfigError(
            "--model '" + file_ + "', made by " + (maker.empty() ? "an unnamed PyTorch" : "PyTorch " + maker) +
                ", does not load with LibTorch " TORCH_VERSION ": " + reason,
            "Export it with the PyTorch of this set-up: ./launch/offramp export", ErrorKind::DeviceUnsupported);
    }

    // After a failure it runs once more, for the reason.
    std::vector<at::Tensor> run_package(const std::vector<at::Tensor>& inputs) {
        if (!has_run_) return run_captured(inputs);
        try {
            return package_->run(inputs);
        } catch (const std::exception&) {
            return run_captured(inputs);
        }
    }

    std::vector<at::Tensor> run_captured(const std::vector<at::Tensor>& inputs) {
        const CapturedErrors refusal;
        try {
            auto outputs = package_->run(inputs);
            has_run_ = true;
            if (!on_cuda_) remove_unpacked();
            return outputs;
        } catch (const std::exception&) {
            const std::string whole = refusal.text();
            const std::string text = first_line_without_stop(whole);
            if (text.empty()) throw;
            if (text.find("input_handles") == std::string::npos) throw std::runtime_error(whole);
            refuse_rows(text, inputs.front().size(0));
            throw RefusedInput(
                ErrorKind::Usage,
                "the model '" + file_ + "' does not take the input of this run, " + described(inputs) + ": " + text,
                fix_for(text, metadata_), "the model does not take " + described(inputs) + ": " + text);
        }
    }

    // Reports a mismatch in the number of rows.
    void refuse_rows(const std::string& refusal, std::int64_t rows) const {
        const std::string wanted = size_wanted(refusal);
        if (number_behind(refusal, " at ") != 0 || wanted.empty()) return;
        const std::string flag = by_length_ ? "--by-length" : "--batch";
        throw ConfigError(flag + " " + std::to_string(rows) + " does not go with --model '" + file_ +
                              "', which takes " + wanted + (by_length_ ? " texts" : " rows") + " per call",
                          "Use " + flag + " " + wanted + ", or export it for " + std::to_string(rows));
    }

    std::string file_;
    const ModelMetadata metadata_;
    bool by_length_ = false;  // rows come in groups
    bool on_cuda_ = false;
    std::unique_ptr<Loader> package_;
    std::vector<std::string> inputs_;
    std::vector<std::string> names_;
    bool has_run_ = false;
};

}  // namespace

std::unique_ptr<Model> make_pt2(const ModelOptions& options) {
    return make_file_model(options,
                           [](const Execution& execution) { return std::make_unique<CompiledNetwork>(execution); });
}

}  // namespace offramp
