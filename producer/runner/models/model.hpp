#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/error.hpp"
#include "common/wire/tensor_spec.hpp"
#include "producer/device/device_tensor.hpp"
#include "producer/runner/models/input_parts.hpp"
#include "producer/runner/models/length_groups.hpp"
#include "producer/runner/models/model_metadata.hpp"

// What the program knows of a model: no LibTorch in sight. Models live in a module, libofframp_models.so,
// that is opened at run time (model_library.hpp), so that a run without one (`copy`) never loads LibTorch.
namespace offramp {

// What goes into a model. Inputs of kind Pixels arrive normalised, as `tensor` says.
enum class InputKind {
    None,     // the model needs no input (`copy`)
    Image,    // [rows, 3, height, width], normalised, dtype and strides as stated
    Feature,  // any dense float tensor, or int32 tokens, as stated
    Arrays,   // rows of bytes, uint8 [rows, bytes], in which the arrays of `parts` lie
};

struct ModelInput {
    InputKind kind = InputKind::None;
    TensorSpec tensor;                                  // a full batch
    std::array<float, 3> mean{0.485F, 0.456F, 0.406F};  // of images in [0, 1], RGB
    std::array<float, 3> std{0.229F, 0.224F, 0.225F};
    std::vector<InputPart> parts;  // of Arrays, in the order in which the model takes them; else none
    // Of tokens, where a batch is computed by length (LengthGroups): texts of a group. 0: all of it at once, as it
    // lies.
    std::uint32_t group_rows = 0;
    std::string prompt;  // of tokens: stands in front of each text
};

// What a model is asked to be.
struct ModelOptions {
    std::string name;     // of the models' table, or the path of a file that holds a model
    std::string weights;  // .safetensors; empty: random, from `seed`
    std::uint64_t seed = 0;
    std::uint32_t batch = 1;
    std::uint32_t group_rows = 0;              // ModelInput's, of a model of tokens that takes any length
    std::uint32_t image_size = 512;            // 0: as the metadata of a model's file says
    std::string precision = "fp32";            // "fp32", "tf32", "bf16"
    std::string memory_format = "contiguous";  // "contiguous", "channels-last"
    bool leave_out_enlargement = false;        // outputs as they are before a last enlargement, if there is one
    bool deterministic = false;
    bool cuda_graphs = true;       // models that are many short kernels may be recorded and replayed
    int device_index = -1;         // CUDA device; -1: CPU
    void* stream = nullptr;        // cudaStream_t that run() submits to; null on the CPU
    std::uint64_t copy_bytes = 0;  // `copy`: bytes of a batch
    std::string copy_outputs;      // `copy`: fp16 shapes of one sample's outputs (OutputShapes); empty: plain bytes
    ModelMetadata metadata;        // of a model's file
};

// One loaded model. Thread: one at a time (the inference thread). Blocks: run() does not wait for the device.
// Errors: ConfigError (weights: which tensor, wanted and found shape), CudaError's kinds through Error.
class Model {
  public:
    virtual ~Model() = default;
    virtual std::string description() const = 0;   // "deeplabv3-resnet50, 39638869 parameters, random weights (seed 0)"
    virtual std::uint64_t parameters() const = 0;  // 0: unknown
    virtual bool random_weights() const = 0;
    // What its user should know; empty: nothing.
    virtual std::string warning() const { return {}; }
    virtual ModelInput input() const = 0;
    virtual std::vector<TensorSpec> outputs() const = 0;  // of a full batch; dense rows
    // What the outputs' height and width are to be enlarged by, bilinearly, where that was left out; else 1.
    virtual std::uint32_t upsample_factor() const { return 1; }
    // Says which batch the next run() is of. What a model gives depends on its input alone, so that a batch that is
    // computed again gives the same; to a model without input the number is the input.
    virtual void begin_batch(std::uint64_t number) { static_cast<void>(number); }
    // Submits one batch. `input` lies on the device in the form that input() states (null for
    // InputKind::None) and stays untouched until work submitted to the stream afterwards starts.
    virtual std::vector<DeviceTensor> run(const void* input) = 0;
    // The same of a batch that lies on the device as `groups` says; of a model with ModelInput::group_rows. Its run()
    // takes all groups at full length, without an order of their own.
    virtual std::vector<DeviceTensor> run_by_length(const void* /*input*/, const LengthGroups& /*groups*/) {
        throw Error(ErrorKind::Internal, "a model that states no groups is given some");
    }
};

// One line of the table of models that a module offers, written by CMake from producer/runner/models/plugins.
struct ModelEntry {
    std::string_view name;
    std::unique_ptr<Model> (*make)(const ModelOptions& options);

    static std::span<const ModelEntry> all();
};

// One line of the table of files that hold a model, from producer/runner/models/formats: named after their extension
// ("pt2").
struct ModelFormat {
    std::string_view name;
    std::unique_ptr<Model> (*make)(const ModelOptions& options);

    static std::span<const ModelFormat> all();
};

}  // namespace offramp
