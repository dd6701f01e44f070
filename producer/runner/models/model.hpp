#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/error.hpp"
#include "common/wire/tensor_spec.hpp"
#include "producer/device/device.hpp"
#include "producer/runner/models/input_parts.hpp"
#include "producer/runner/models/length_groups.hpp"
#include "producer/runner/models/model_metadata.hpp"

// The program's view of a model, without LibTorch. Models are in a module, libofframp_models.so, that is opened at run
// time (model_library.hpp), so that a run without one (`copy`) never loads LibTorch.
namespace offramp {

// A model's input. Inputs of kind Pixels arrive normalised, in the form of `tensor`.
enum class InputKind {
    None,     // the model needs no input (`copy`)
    Image,    // [rows, 3, height, width], normalised, dtype and strides as declared
    Feature,  // any dense float tensor, or int32 tokens, as declared
    Arrays,   // rows of bytes, uint8 [rows, bytes], that contain the arrays of `parts`
};

struct ModelInput {
    InputKind kind = InputKind::None;
    TensorSpec tensor;                                  // shape of a full batch; kVarying where batches differ
    std::array<float, 3> mean{0.485F, 0.456F, 0.406F};  // for images in [0, 1], RGB
    std::array<float, 3> std{0.229F, 0.224F, 0.225F};
    std::vector<InputPart> parts;  // for Arrays, in the model's order; otherwise empty
    // Tokens computed by length (LengthGroups): texts per group. 0: the whole batch in one call.
    std::uint32_t group_rows = 0;
    std::string prompt;  // for tokens: precedes each text
    // The shape of outputs depends on all rows of a batch: those that are done are computed again.
    bool needs_all_rows = false;
};

// The model's own code failed on a batch, and the device still works: the batch's items are skipped. reason() is about
// the input alone, without a hint.
class RefusedInput : public Error {
  public:
    RefusedInput(ErrorKind kind, const std::string& problem, const std::string& hint, std::string reason)
        : Error(kind, problem, hint), reason_(std::move(reason)) {}

    const std::string& reason() const noexcept { return reason_; }

  private:
    std::string reason_;
};

using SampleShape = std::vector<std::int64_t>;
// The shapes that together have the least and the greatest extents of an input's samples except `refused` ones, the
// largest first, each with the name of a sample.
using ExtremeShapes =
    std::function<std::vector<std::pair<SampleShape, std::string>>(const std::set<SampleShape>& refused)>;

// Options for a model.
struct ModelOptions {
    std::string name;     // a name in the models' table, or the path of a model file
    std::string weights;  // .safetensors; empty: random, from `seed`
    std::uint64_t seed = 0;
    std::uint32_t batch = 1;
    std::uint32_t group_rows = 0;              // see ModelInput; for a model of tokens of any length
    std::uint32_t image_size = 512;            // 0: from the metadata of a model's file
    std::string precision = "fp32";            // "fp32", "tf32", "bf16"
    std::string memory_format = "contiguous";  // "contiguous", "channels-last"
    bool leave_out_enlargement = false;        // return outputs before a last enlargement, if there is one
    bool deterministic = false;
    bool cuda_graphs = true;                  // models of many short kernels may be recorded and replayed
    int device_index = -1;                    // CUDA device; -1: CPU
    void* stream = nullptr;                   // cudaStream_t that run() submits to; null on the CPU
    std::uint64_t copy_bytes = 0;             // `copy`: bytes of a batch
    std::vector<std::string> output_tensors;  // of a model's file, the outputs to return; empty: all
    std::string copy_outputs;  // `copy`: fp16 shapes of one sample's outputs (OutputShapes); empty: plain bytes
    ModelMetadata metadata;    // for a model's file
    // Of a model's file, for input that varies: outputs are learned by them. Called only while the model is made.
    ExtremeShapes shapes;
};

// One loaded model. Thread: one at a time (the inference thread). Blocks: run() does not wait for the device.
// Errors: ConfigError (weights: which tensor, wanted and found shape), CudaError's kinds through Error; run(): also
// RefusedInput.
class Model {
  public:
    virtual ~Model() = default;
    virtual std::string description() const = 0;   // "deeplabv3-resnet50, 39638869 parameters, random weights (seed 0)"
    virtual std::uint64_t parameters() const = 0;  // 0: unknown
    virtual bool random_weights() const = 0;
    // A warning for the user; empty: none.
    virtual std::string warning() const { return {}; }
    virtual ModelInput input() const = 0;
    // Shapes of a full batch; rows are dense. An output with a row for each token is [batch, kVarying, ...]; others
    // have kVarying where batches differ.
    virtual std::vector<TensorSpec> outputs() const = 0;
    // Of each output the extents of the largest known sample, where samples differ.
    virtual std::vector<std::vector<std::int64_t>> largest_samples() const { return {}; }
    // The bilinear enlargement of the outputs' height and width, if it was left out; else 1.
    virtual std::uint32_t upsample_factor() const { return 1; }
    // Announces the batch of the next run(). A model's outputs depend only on its input, so that a repeated batch gives
    // the same; for a model without input the number is the input.
    virtual void begin_batch(std::uint64_t number) { static_cast<void>(number); }
    // Submits one batch. `input` is on the device in the form of input() (null for InputKind::None) and stays untouched
    // until work submitted to the stream afterwards starts. An output with a row for each token is [tokens, ...]: the
    // texts' rows of tokens one after another, padding included (TokenRows).
    virtual std::vector<DeviceTensor> run(const void* input) = 0;
    // Like run(), for a batch of this shape, on a model whose input varies.
    virtual std::vector<DeviceTensor> run_in_shape(const void* /*input*/, const TensorSpec& /*shape*/) {
        throw Error(ErrorKind::Internal, "a model of one shape got another");
    }
    // Like run(), for a batch laid out as `groups`, on a model with ModelInput::group_rows. The model's run() takes all
    // groups at full length, in batch order.
    virtual std::vector<DeviceTensor> run_by_length(const void* /*input*/, const LengthGroups& /*groups*/) {
        throw Error(ErrorKind::Internal, "a model without groups got some");
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
