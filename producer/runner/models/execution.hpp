#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/InferenceMode.h>

#include <optional>
#include <string>
#include <utility>

#ifdef OFFRAMP_TORCH_HAS_CUDA
#include <c10/cuda/CUDAGuard.h>
#endif

#include "common/wire/tensor_spec.hpp"
#include "producer/runner/models/model.hpp"

namespace offramp {

// The first non-empty line of a LibTorch error, without its long continuation.
std::string first_line(const std::string& text);
// The line of an exception's text that describes the failure: the first line, or, for TorchScript, which begins with
// the place, the line after it.
std::string cause_in(const std::string& text);

// "float32 [4, 3, 224, 224]"
std::string describe(const at::Tensor& tensor);

// LibTorch's equivalent, and the reverse; nothing for a type that models do not support.
at::ScalarType scalar_type(DType dtype);
std::optional<DType> dtype_of(at::ScalarType type);

// Where and how a model computes: device, stream, precision, memory format. Every model of the module holds one and
// does all its work with LibTorch inside in(), so that no LibTorch exception and no work on another stream leaves the
// module. Owns no CUDA objects: the stream is the caller's. Thread: one at a time. The constructor sets LibTorch's
// process-wide switches (TF32, cuDNN's choice of kernels, deterministic algorithms), and on a GPU its terminate
// handler: a process runs one model. Errors: ConfigError for a precision or memory format that is unknown or not
// possible on the device (Usage), or a device that LibTorch cannot use (DeviceUnsupported).
class Execution {
  public:
    explicit Execution(const ModelOptions& options);

    at::Device device() const { return device_; }
    bool on_cuda() const { return device_.is_cuda(); }
    at::ScalarType compute_type() const { return compute_type_; }
    at::MemoryFormat memory_format() const { return memory_format_; }
    const ModelOptions& options() const { return options_; }

    // Runs `work` on the stream, without autograd, and turns LibTorch's exceptions into an Error with its kind.
    template <class Work>
    auto in(Work&& work) const {
        try {
            const Scope scope(*this);
            return std::forward<Work>(work)();
        } catch (...) {
            rethrow_as_error();
        }
    }

    // Throws if the GPU is the reason for LibTorch's error `whole_text`: a lost context (DeviceBroken) or too little
    // memory (DeviceOutOfMemory). Call it before an error is explained otherwise.
    void require_device(const std::string& whole_text) const;

    // Declares the model's input, and the fix if it takes another: errors in its own code name both.
    void state_input(std::string fed, std::string fix) {
        fed_ = std::move(fed);
        fix_ = std::move(fix);
    }

    // The caller's memory as a tensor, without a copy and without asking the driver.
    at::Tensor view(const void* data, const TensorSpec& spec) const;
    // Returns a finished tensor with the shape, dtype and strides of `spec`.
    static DeviceTensor hand_out(at::Tensor tensor, const TensorSpec& spec);

  private:
    class Scope {
      public:
        explicit Scope(const Execution& execution);

      private:
        c10::InferenceMode inference_;
#ifdef OFFRAMP_TORCH_HAS_CUDA
        c10::cuda::OptionalCUDAStreamGuard stream_;
#endif
    };

    [[noreturn]] void rethrow_as_error() const;
    [[noreturn]] void fail(const std::string& whole_text) const;
    std::string subject() const;  // of error messages

    ModelOptions options_;
    std::string fed_;
    std::string fix_ = "Give it input that it takes (--image-size, --batch)";
    at::Device device_ = at::kCPU;
    at::ScalarType compute_type_ = at::kFloat;
    at::MemoryFormat memory_format_ = at::MemoryFormat::Contiguous;
};

}  // namespace offramp
