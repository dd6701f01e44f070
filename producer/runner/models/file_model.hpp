#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "producer/runner/models/execution.hpp"
#include "producer/runner/models/model.hpp"
#include "producer/runner/models/network_inputs.hpp"

namespace offramp {

// A network that was read from a file: tensors in, tensors out, each in an order that stays. Thread: one at a time.
class FileNetwork {
  public:
    struct Output {
        std::string name;
        at::Tensor tensor;
    };
    virtual ~FileNetwork() = default;
    // "compiled by AOTInductor for cpu"
    virtual std::string description() const = 0;
    virtual std::string warning() const { return {}; }
    virtual std::uint64_t parameters() const { return 0; }
    // Nothing: the file does not say.
    virtual std::optional<NetworkInputs> inputs() const = 0;
    // Errors: ConfigError where the inputs are not what it takes; whatever LibTorch throws.
    virtual std::vector<Output> run(std::span<const at::Tensor> inputs) = 0;
};

// Makes a model of what a file holds: its input is what the metadata says, its outputs are found by one dry batch.
// `load` is called inside execution.in(). Several inputs are cut from the batch's rows on the device, each into a
// tensor of its own, which costs a copy of them. Errors: ConfigError: other inputs than the file's (Config, with what
// the metadata should say), an output that is not a batch of samples, or whose shape or type changes from batch to
// batch (BadInput), names in the metadata that do not fit (Config), a precision that the file has settled (Usage); and
// load's.
std::unique_ptr<Model> make_file_model(
    const ModelOptions& options, const std::function<std::unique_ptr<FileNetwork>(const Execution& execution)>& load);

}  // namespace offramp
