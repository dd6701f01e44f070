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
#include "producer/runner/models/network_file.hpp"

namespace offramp {

// A network read from a file. It takes and returns tensors in a fixed order. Thread: one at a time.
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
    // Returns nothing if the file does not describe its inputs.
    virtual std::optional<NetworkInputs> inputs() const = 0;
    // Errors: ConfigError for inputs that it does not take; any exception of LibTorch.
    virtual std::vector<Output> run(std::span<const at::Tensor> inputs) = 0;
};

// Makes a model of a file's network. Its input comes from the metadata; a dry batch determines its outputs. `load` is
// called inside execution.in(). Several inputs are cut from the batch's rows on the device, each into its own tensor,
// which costs a copy of them. Errors: ConfigError: other inputs than the file's (Config, with the metadata to write),
// an output that is not a batch of samples, or whose shape or type changes from batch to batch (BadInput), names in the
// metadata that do not fit (Config), a precision fixed by the file (Usage); and load's.
std::unique_ptr<Model> make_file_model(
    const ModelOptions& options, const std::function<std::unique_ptr<FileNetwork>(const Execution& execution)>& load);

}  // namespace offramp
